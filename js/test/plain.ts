/** A text with plain instead of narrow no-break spaces, for legible expectations; for tests. */
export const plain = (text: string | null | undefined): string =>
  (text ?? "").replaceAll("\u202f", " ");
