/** Notes on empty frames and missing ranks, as in Python. */

import NOTES from "../../../hta_widgets/facts/notes.json";

export type NoteName = keyof typeof NOTES;

/** A note; its placeholders take `values` of the same names. */
export function noteFor(name: NoteName, values: Record<string, string | number> = {}): string {
  return NOTES[name].replace(/\{(\w+)\}/g, (placeholder, key: string) =>
    String(values[key] ?? placeholder),
  );
}
