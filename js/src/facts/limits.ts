/**
 * Limits, flags and codes shared with Python, so that the kernel and saved pages give the same
 * answers. Limits used in only one language are defined where they are used.
 */

import kinds from "../../../hta_widgets/facts/kinds.json";
import type { Kind } from "../protocol/source";

export { default as FLAGS } from "../../../hta_widgets/facts/flags.json";
export { default as LIMITS } from "../../../hta_widgets/facts/limits.json";

/** Return the code of a kind in tiles and columns: its position in `kinds.json`. */
export function kindCode(kind: Kind): number {
  return Object.keys(kinds).indexOf(kind);
}
