/**
 * Limits, flags and codes that Python and the page share, so that a kernel and a saved page give
 * the same answers. Limits of a single language are defined where they are used.
 */

import kinds from "../../../hta_widgets/facts/kinds.json";
import type { Kind } from "../protocol/source";

export { default as FLAGS } from "../../../hta_widgets/facts/flags.json";
export { default as LIMITS } from "../../../hta_widgets/facts/limits.json";

/** The code of a kind in tiles and columns: its place in `kinds.json`. */
export function kindCode(kind: Kind): number {
  return Object.keys(kinds).indexOf(kind);
}
