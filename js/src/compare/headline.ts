/** What changed, in words above everything. */

import { type Child, h } from "../app/dom";
import { plural } from "../draw/format";
import { type Frame, rowsOf, text } from "./frames";

/** So many sentences follow the first; the others unfold. */
const SENTENCES = 4;

/** The findings, most important first; null for runs without times. */
export function headlineOf(told: Frame | null): Child[] {
  // What to be cautious of stands in the toolbar.
  const rows = told === null ? [] : rowsOf(told).filter((row) => row.kind !== "caution");
  const [first, ...rest] = rows.map((row) => text(row, "text"));
  if (first === undefined) {
    const words =
      told === null
        ? "Two runs without times: their tables are below."
        : "Nothing changed beyond the noise.";
    return [h("h2", {}, words)];
  }
  const [lead, share] = headParts(first);
  const more = rest.slice(SENTENCES);
  return [
    h(
      "h2",
      {},
      lead,
      share !== "" && h("em", { class: deltaClass(share) }, share),
      share !== "" && ".",
    ),
    rest.length > 0 && h("p", {}, rest.slice(0, SENTENCES).join(" ")),
    more.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, plural(more.length, "more finding")),
        h("ul", {}, ...more.map((line) => h("li", {}, line))),
      ),
  ];
}

/** The median of the steps' changes; null of one step. */
export function medianShare(steps: Frame): number | null {
  const shares = rowsOf(steps)
    .map((row) => Number(row.diff_ns) / Math.max(Number(row.before_ns), 1))
    .sort((a, b) => a - b);
  if (shares.length < 2) return null;
  const middle = shares.length >> 1;
  return shares.length % 2 === 1 ? shares[middle]! : (shares[middle - 1]! + shares[middle]!) / 2;
}

/** The sentence, and the share at its end, which is told in colour. */
export function headParts(sentence: string): [string, string] {
  const found = /^(.*, )([+\u2212][\d.\s\u2009\u202f]+%)\.$/su.exec(sentence);
  return found === null ? [sentence, ""] : [found[1]!, found[2]!];
}

function deltaClass(share: string): string {
  return share.startsWith("+") ? "hta-diff-slower" : "hta-diff-faster";
}
