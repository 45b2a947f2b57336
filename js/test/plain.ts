/** Thin and narrow no-break spaces as plain ones, so that expected texts can be read; for tests. */
export const plain = (text: string | null | undefined): string =>
  (text ?? "").replaceAll("\u202f", " ");
