/** Lists of ranks as text, and grouping of digits, as in Python (`text.py`). */

export const THIN_SPACE = "\u202f";

/** Group the digits of the integer part in threes if there are at least four. */
export function groupDigits(digits: string): string {
  const [integerPart = "", fraction] = digits.split(".");
  const grouped = integerPart.replace(/\B(?=(\d{3})+(?!\d))/g, THIN_SPACE);
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** Return the first and last rank of each range of consecutive ranks. */
export function runsOf(ranks: readonly number[]): [number, number][] {
  const runs: [number, number][] = [];
  for (const rank of [...ranks].sort((a, b) => a - b)) {
    const open = runs.at(-1);
    if (open !== undefined && rank === open[1] + 1) open[1] = rank;
    else runs.push([rank, rank]);
  }
  return runs;
}

function rangeText([low, high]: [number, number]): string {
  if (low === high) return `${low}`;
  return high === low + 1 ? `${low}, ${high}` : `${low}–${high}`;
}

/** Return texts of ranges, such as `0–4`, `6, 7`, `9`. */
export function rankRuns(ranks: readonly number[]): string[] {
  return runsOf(ranks).map(rangeText);
}

/** Return ranges as text, such as `0–3, 5` or `0–3, 8–11, 16 and 24 more`. */
export function rangesText(ranks: readonly number[], maxRuns = 3): string {
  const shown = runsOf(ranks).slice(0, maxRuns);
  const left = ranks.length - shown.reduce((sum, [low, high]) => sum + high - low + 1, 0);
  const more = left > 0 ? ` and ${groupDigits(String(left))} more` : "";
  return `${shown.map(rangeText).join(", ")}${more}`;
}

/** Return a text such as `rank 5` or `ranks 0–4, 6, 7`. */
export function ranksText(ranks: readonly number[], maxRuns?: number): string {
  return `rank${ranks.length === 1 ? "" : "s"} ${rangesText(ranks, maxRuns)}`;
}
