/** Notes on empty frames and missing ranks, as in Python. */

import NOTES from "../../../hta_widgets/facts/notes.json";

/** A note; its holes take `values` of the same names. */
export function noteFor(
  name: keyof typeof NOTES,
  values: Record<string, string | number> = {},
): string {
  return NOTES[name].replace(/\{(\w+)\}/g, (hole, key: string) => String(values[key] ?? hole));
}
