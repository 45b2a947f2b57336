/** Marks over the lanes, set with M; view bookmarks on the digits. */

import type { Overlay, Span } from "../contract";

export type Note = Overlay["notes"][number];

/** The list after marking a stretch: an unkept mark replaces the one before. */
export function marked(notes: readonly Note[], span: Span, kept: boolean): Note[] {
  const [start, end] = [Math.round(span[0]), Math.round(span[1])];
  const others = notes.filter(
    (note) => (kept || note.kept) && !(note.start === start && note.end === end),
  );
  return [...others, { start, end, kept }];
}

/** The list without the mark nearest to a time. */
export function unmarked(notes: readonly Note[], time: number): Note[] {
  let nearest = -1;
  let best = Infinity;
  notes.forEach((note, at) => {
    const distance = Math.max(note.start - time, time - note.end, 0);
    if (distance <= best) {
      best = distance;
      nearest = at;
    }
  });
  return notes.filter((_, at) => at !== nearest);
}

export class Bookmarks {
  private readonly views = new Map<number, Span>();

  set(digit: number, view: Span): void {
    this.views.set(digit, view);
  }

  get(digit: number): Span | null {
    return this.views.get(digit) ?? null;
  }
}
