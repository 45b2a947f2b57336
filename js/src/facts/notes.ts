/** Notes about empty frames and missing ranks, as in Python. */

import NOTES from "../../../hta_widgets/facts/notes.json";

export type NoteName = keyof typeof NOTES;

/** Return a note with its placeholders filled from `values`. */
export function noteFor(name: NoteName, values: Record<string, string | number> = {}): string {
  return NOTES[name].replace(/\{(\w+)\}/g, (placeholder, key: string) =>
    String(values[key] ?? placeholder),
  );
}
