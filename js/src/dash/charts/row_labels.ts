/** Which rows have words, where rows are closer together than lines of text. */

/**
 * Every `every`th row, after the late ones and those stated as facts, unless a neighbour has words.
 */
export function labelledRows(
  rows: number,
  every: number,
  ...first: readonly (ReadonlySet<number> | undefined)[]
): ReadonlySet<number> {
  const taken = new Set<number>();
  const isFree = (row: number): boolean => {
    for (let at = row - every + 1; at < row + every; at += 1) if (taken.has(at)) return false;
    return true;
  };
  for (const marked of first) {
    for (const row of [...(marked ?? [])].sort((a, b) => a - b)) if (isFree(row)) taken.add(row);
  }
  for (let row = 0; row < rows; row += every) if (isFree(row)) taken.add(row);
  return taken;
}
