/** Which rows have words, where rows are closer together than lines of text. */

/**
 * Every `every`th row, and late ones first: those that are not beside one that has words already.
 */
export function labelledRows(
  rows: number,
  every: number,
  late: ReadonlySet<number> = new Set(),
): ReadonlySet<number> {
  const taken = new Set<number>();
  const isFree = (row: number): boolean => {
    for (let at = row - every + 1; at < row + every; at += 1) if (taken.has(at)) return false;
    return true;
  };
  for (const row of [...late].sort((a, b) => a - b)) if (isFree(row)) taken.add(row);
  for (let row = 0; row < rows; row += every) if (isFree(row)) taken.add(row);
  return taken;
}
