/** One collective on all ranks: who waited how long, who came last, what the transfer took. */

import { formatDuration } from "../../draw/format";
import { type Collective, lastOf, type Member, waitsWords } from "../collective";
import { link } from "../controls";
import { type Child, h } from "../dom";

/** Of larger groups the first and the last to arrive are shown. */
const MOST_ROWS = 16;

export function collectivePanel(
  collective: Collective,
  own: number,
  go: (rank: number, id: number) => void,
): HTMLElement {
  const { ranks } = collective;
  const whole = Math.max(...ranks.map((one) => one.arrival + one.wait + one.transfer), 1);
  const last = lastOf(collective);
  const shown = rowsOf(ranks, own);
  const words = waitsWords(collective);
  const title = `${collective.name} on ${ranks.length} ranks`;
  return h(
    "div",
    { class: "hta-collective" },
    h("h3", {}, title),
    h("p", { class: "hta-note" }, words),
    h(
      "div",
      { class: "hta-calls", role: "group", "aria-label": `${title}: ${words}` },
      ...shown.map((one) => row(one, { whole, own, last, late: collective.late }, go)),
    ),
    ranks.length > shown.length &&
      h("p", { class: "hta-note" }, `${ranks.length - shown.length} ranks between them not shown`),
    h(
      "div",
      { class: "hta-call-axis" },
      h("span", {}, "first arrival"),
      h("span", {}, `end +${formatDuration(whole)}`),
    ),
  );
}

/** All ranks; of many those that arrive first and last, and the one that was asked about. */
function rowsOf(ranks: readonly Member[], own: number): Member[] {
  if (ranks.length <= MOST_ROWS) return [...ranks];
  const byArrival = [...ranks].sort((a, b) => a.arrival - b.arrival);
  const half = MOST_ROWS >> 1;
  const kept = new Set([...byArrival.slice(0, half), ...byArrival.slice(-half)]);
  return ranks.filter((one) => kept.has(one) || one.rank === own);
}

interface Scale {
  whole: number;
  own: number;
  last: Member | null;
  late: number;
}

function row(
  one: Member,
  { whole, own, last, late }: Scale,
  go: (rank: number, id: number) => void,
): HTMLElement {
  const percent = (ns: number): string => `${(ns / whole) * 100}%`;
  const isLast = one === last;
  const bar: Child[] = [];
  if (isLast) {
    const from = Math.max(0, one.arrival - late);
    bar.push(part("late", percent(from), percent(one.arrival - from)));
  }
  if (one.wait > 0) bar.push(part("wait", percent(one.arrival), percent(one.wait)));
  bar.push(part("transfer", percent(one.arrival + one.wait), percent(one.transfer)));
  const told = isLast ? "last" : one.wait > 0 ? formatDuration(one.wait) : "no wait";
  return h(
    "div",
    { class: `hta-call${one.rank === own ? " hta-own" : ""}${isLast ? " hta-late" : ""}` },
    link(`rank ${one.rank}`, () => go(one.rank, one.id), "Show this call on this rank"),
    h("div", { class: "hta-call-bar" }, ...bar),
    h("span", { class: "hta-call-figure" }, told),
  );
}

function part(what: string, left: string, width: string): HTMLElement {
  return h("div", { class: `hta-call-part hta-${what}`, style: { left, width } });
}
