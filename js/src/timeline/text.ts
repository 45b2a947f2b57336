/** Sentences about the view, the selection and events. */

import { THIN_SPACE, groupDigits, ranksText } from "../facts/rank_text";
import { sum } from "../expressions/numbers";
import { LIMITS } from "../facts/limits";
import { deviceOf, hasDevice } from "../protocol/scene";
import { toPythonString } from "../protocol/selection";
import {
  type Arrival,
  type Brief,
  type Scene,
  type SelectionJson,
  type Span,
  mainKinds,
  type Totals,
  type Lateness,
  type Stats,
  type Collective,
  type Member,
} from "../protocol/source";
import { isMpi } from "../stage/margin";
import { formatCount, formatDuration, formatRange, formatShare, plural } from "../ui/formats";
import { type RichText, type TextRun, withPrefix } from "../ui/text";

/** Name, length in ns, and maximum number of decimals. */
const UNITS = [
  ["s", 1e9, 9],
  ["ms", 1e6, 6],
  ["µs", 1e3, 3],
  ["ns", 1, 0],
] as const;

/** Return a text such as `451.32–453.36 ms`: one unit for both ends, and the decimals needed. */
export function spanText(span: Span): string {
  const [start, end] = span;
  const maxMagnitude = Math.max(Math.abs(start), Math.abs(end));
  const [unit, scale, maxDecimals] = UNITS.find(([, ns]) => maxMagnitude >= ns) ?? UNITS[3];
  // Enough decimals to show a hundredth of the span. 1e-9 allows for rounding errors.
  const step = Math.max(end - start, 1) / 100 / scale;
  const decimals = Math.min(Math.max(Math.ceil(-Math.log10(step) - 1e-9), 0), maxDecimals);
  const text = (ns: number): string => {
    const digits = groupDigits((Math.abs(ns) / scale).toFixed(decimals));
    return ns < 0 ? `\u2212${digits}` : digits;
  };
  // A dash next to a minus sign would look like a single sign.
  return `${text(start)}${start < 0 ? " to " : "–"}${text(end)}${THIN_SPACE}${unit}`;
}

export function plainText(text: RichText): string {
  const texts = text.map((run) => (typeof run === "string" ? run : Object.values(run).join("")));
  return texts.join("");
}

export function isWholeRange(view: Span, scene: Scene): boolean {
  const slack = (scene.range[1] - scene.range[0]) / 200;
  return view[0] <= scene.range[0] + slack && view[1] >= scene.range[1] - slack;
}

/** Return the name of the step that fills the view; null if no step does. */
function stepInView(view: Span, scene: Scene): string | null {
  const length = view[1] - view[0];
  for (const step of scene.steps) {
    const shared = Math.min(view[1], step.start + step.dur) - Math.max(view[0], step.start);
    if (shared >= 0.9 * length && shared >= 0.9 * step.dur) return step.name;
  }
  return null;
}

/** Describe which part of an event is in the window of an export; "" if all of it is. */
export function cutText(event: { start: number; dur: number }, { part, range }: Scene): string {
  if (!part) return "";
  const before = range[0] - event.start;
  const after = event.start + event.dur - range[1];
  const clauses: string[] = [];
  if (before > 0) clauses.push(`begins ${formatDuration(before)} before`);
  if (after > 0) clauses.push(`ends ${formatDuration(after)} after`);
  if (clauses.length > 0) return `${clauses.join(" and ")} the export's window`;
  return part.cut_events > 0 && (before === 0 || after === 0)
    ? "reaches the edge of the export's window, which may have cut it"
    : "";
}

function viewHead(view: Span, scene: Scene): TextRun {
  const length = formatDuration(view[1] - view[0]);
  if (isWholeRange(view, scene)) {
    const scopeName = scene.part ? "Whole export" : "Whole job";
    return { strong: `${scopeName}, ${formatDuration(scene.range[1] - scene.range[0])}.` };
  }
  const step = stepInView(view, scene);
  if (step !== null) return { strong: `${step} in view, ${length}.` };
  return { strong: `${spanText(view)} (${length}).` };
}

const SHARES = ["compute", "communication", "exposed", "memory", "unrecorded", "idle"] as const;

type DeviceShares = Record<(typeof SHARES)[number] | "ranks", number>;

/** Return how devices in view spend their time; null if no rank has device events. */
function deviceShares(scene: Scene, stats: Stats): DeviceShares | null {
  // A truncated file may lack events at any time, so empty times may not be idle.
  const complete = scene.ranks.filter((rank) => rank.truncated === null && hasDevice(rank));
  const device = new Set(complete.map(({ rank }) => rank));
  const times = { compute: 0, communication: 0, exposed: 0, memory: 0 };
  const sums: DeviceShares = { ...times, unrecorded: 0, idle: 0, ranks: 0 };
  let span = 0;
  stats.ranks.forEach((rank, index) => {
    const rankSpan = stats.span[index] ?? 0;
    if (!device.has(rank) || rankSpan <= 0) return;
    sums.ranks += 1;
    span += rankSpan;
    for (const key of SHARES) sums[key] += stats[key][index] ?? 0;
  });
  if (span === 0) return null;
  for (const key of SHARES) sums[key] /= span;
  return sums;
}

/**
 * Return the cost of late ranks: the time that ranks spend waiting without computing, as a share of
 * their device spans. Null if unknown.
 */
export function waitingShare(
  lateness: Lateness | null,
  stats: Stats | null,
  /** Ranks to include; null: all ranks. */
  ranks: readonly number[] | null = null,
): number | null {
  if (lateness === null || stats === null || !lateness.wait.some((ns) => ns > 0)) return null;
  const sumTimes = (times: readonly number[], ranksOfTimes: readonly number[]): number =>
    sum(times.filter((_, index) => ranks === null || ranks.includes(ranksOfTimes[index]!)));
  const span = sumTimes(stats.span, stats.ranks);
  return span > 0 ? sumTimes(lateness.exposed_wait, lateness.ranks) / span : null;
}

/** Return `7 ranks wait for rank 5: 14 % of each GPU span.`; null unless one rank is late. */
export function lateText(
  lateness: Lateness | null,
  stats: Stats | null,
  spanName: string,
): RichText | null {
  const share = waitingShare(lateness, stats);
  if (lateness === null || lateness.late.length !== 1 || share === null) return null;
  const [lateRank] = lateness.late as [number];
  const minWait = LIMITS.wait_share * (lateness.end - lateness.start);
  const waiting = lateness.ranks.filter(
    (rank, index) =>
      rank !== lateRank &&
      Math.min(lateness.wait_for_late[index]!, lateness.exposed_wait[index]!) >= minWait,
  );
  if (waiting.length === 0) return null;
  const waitText =
    waiting.length === 1 ? "1 rank waits" : `${formatCount(waiting.length)} ranks wait`;
  const lateRun = { strong: `rank ${lateRank}` };
  return [` ${waitText} for `, lateRun, `: ${formatShare(share)} of ${spanName}.`];
}

/** Return a text about folded rows: `9 of 1 024 ranks shown; similar ranks are folded.` */
export function foldedText({ shown, all }: { shown: number; all: number }): string {
  return ` ${formatCount(shown)} of ${formatCount(all)} ranks shown; similar ranks are folded.`;
}

export function viewText(
  view: Span,
  scene: Scene,
  stats: Stats | null,
  lateness: Lateness | null = null,
  /** Text about folded ranks, starting with a space. */
  folded = "",
): RichText {
  const sentence: RichText = [viewHead(view, scene)];
  if (folded !== "") sentence.push(folded);
  if (stats === null) return sentence;
  if (view[1] <= scene.range[0] || view[0] >= scene.range[1])
    return [...sentence, ` Outside the job: it ends at ${formatDuration(scene.range[1])}.`];
  const shares = deviceShares(scene, stats);
  if (shares === null) return [...sentence, noSharesText(scene, stats)];
  const isJobOfMpi = scene.ranks.every(isMpi);
  const isSingleRank = shares.ranks === 1;
  const device = deviceOf(scene);
  const spanName = isSingleRank ? `the ${device} span` : `each ${device} span`;
  // The line may be truncated, so the late rank precedes the shares of time.
  sentence.push(...(lateText(lateness, stats, isJobOfMpi ? "the time" : spanName) ?? []));
  if (isJobOfMpi) {
    const subject = isSingleRank ? "The rank is" : "Ranks are";
    const [inMpi, elsewhere] = [formatShare(shares.communication), formatShare(shares.idle)];
    return [...sentence, ` ${subject} in MPI ${inMpi} and elsewhere ${elsewhere} of the time.`];
  }
  return [...sentence, sharesText(shares, device), ` of ${spanName}.${truncatedText(scene)}`];
}

/** Return a note about ranks excluded from shares because their files end early; "" if none. */
function truncatedText({ ranks }: Scene): string {
  const [rank, ...others] = ranks.filter((rank) => rank.truncated !== null && hasDevice(rank));
  if (rank === undefined) return "";
  if (others.length === 0) return ` Excludes rank ${rank.rank}, whose file ends early.`;
  return ` Excludes ${formatCount(others.length + 1)} ranks, whose files end early.`;
}

/** Copies with a smaller share of the time are not mentioned. */
const MIN_COPY_SHARE = 0.05;

/** Return a text such as ` GPUs compute 61 %, communicate 25 % (9 % exposed) and idle 30 %`. */
function sharesText(shares: DeviceShares, device: string): string {
  const isSingle = shares.ranks === 1;
  const verb = (name: string): string => (isSingle ? `${name}s` : name);
  const subject = isSingle ? ` The ${device}` : ` ${device}s`;
  let text = `${subject} ${verb("compute")} ${formatShare(shares.compute)}`;
  if (shares.communication > 0) {
    const exposed = `(${formatShare(shares.exposed)} exposed)`;
    text += `, ${verb("communicate")} ${formatShare(shares.communication)} ${exposed}`;
  }
  if (shares.memory >= MIN_COPY_SHARE) {
    text += `, only ${isSingle ? "copies" : "copy"} ${formatShare(shares.memory)}`;
  }
  if (shares.unrecorded > 0) {
    text += `, probably ${verb("run")} unrecorded work ${formatShare(shares.unrecorded)}`;
  }
  return `${text} and ${verb("idle")} ${formatShare(shares.idle)}`;
}

/** Return why there are no device shares; "" for files that never contain device events. */
function noSharesText(scene: Scene, stats: Stats): string {
  const device = scene.ranks.filter(hasDevice);
  if (device.length === 0) {
    // Files from BytePS and MPI never contain GPU events.
    const mayHave = scene.ranks.some(({ tracks }) => tracks.some(({ role }) => role === "thread"));
    return mayHave ? " No GPU events in these files." : "";
  }
  if (device.every((rank) => rank.truncated !== null))
    return ` The files end early: later work of the ${deviceOf(scene)}s and idle time are unknown.`;
  return stats.data.some((ns) => ns > 0)
    ? ` No ${deviceOf(scene)} works here: this is before the first or after the last work.`
    : " No rank has data here.";
}

/** Describe a mark of an arrival strip: `1.2 ms after the median rank`, and the call. */
export function arrivalText({ name, call, of, rank, ns, ofJob }: Arrival): [string, string] {
  const callText = `${name} ${formatCount(call)} of ${formatCount(of)}`;
  if (ofJob) {
    const lastText =
      rank < 0 ? "several ranks come last at the same time" : `rank ${rank} comes last`;
    return [`${lastText}, ${callText}`, `the others wait ${formatDuration(ns)} on average`];
  }
  const late =
    ns > 0 ? `${formatDuration(ns)} after the median rank` : "no later than the median rank";
  return [late, `rank ${rank}, ${callText}`];
}

export function eventText(
  event: Brief,
  track: string | null,
  view: Span,
  collective: Collective | null = null,
): RichText {
  // For example: `on rank 5, stream 40: 3.50 ms`.
  const trackText = withPrefix(", ", track ?? "");
  const placeAndTime = `on rank ${event.rank}${trackText}: ${formatDuration(event.dur)}`;
  const ownArrival = collective?.ranks.find(({ rank }) => rank === event.rank);
  if (collective !== null && ownArrival !== undefined) {
    const name = { strong: `${countText(collective)}, ${event.short}` };
    return [name, ` ${placeAndTime}, ${arrivalClause(collective, ownArrival)}.`];
  }
  const viewClause = `View ${spanText(view)} (${formatDuration(view[1] - view[0])})`;
  return [{ strong: event.short }, ` ${placeAndTime}.`, ` ${viewClause}.`];
}

/** Return `including 5.49 ms waiting for rank 5`, or how late the rank was if it came last. */
function arrivalClause(collective: Collective, { rank, wait }: Member): string {
  const last = lastRankOf(collective);
  if (last?.rank === rank) {
    return `arrived ${formatDuration(collective.late)} after the median rank`;
  }
  const waitText = wait > 0 ? `including ${formatDuration(wait)} waiting` : "without waiting";
  return last === null ? waitText : `${waitText} for rank ${last.rank}`;
}

/** Describe a selection's ranks and rows: `all 8 ranks`, `ranks 0–3, 5`, `rank 5, 2 tracks`. */
export function rowsText(selection: SelectionJson, scene: Scene): string {
  const ranks = chosenRanksText(selection.ranks, scene);
  if (selection.tracks === null) return ranks;
  const only = selection.tracks.length === 1 ? selection.tracks[0] : undefined;
  return `${ranks}, ${only ?? plural(selection.tracks.length, "track")}`;
}

function chosenRanksText(ranks: readonly number[] | null, { ranks: all }: Scene): string {
  if (ranks?.length === 0) return "no rank";
  if (all.length === 1) return `rank ${all[0]!.rank}`;
  if (ranks === null || ranks.length === all.length) return `all ${formatCount(all.length)} ranks`;
  return ranksText(ranks);
}

export function selectionHead(selection: SelectionJson, scene: Scene): string {
  const { start_ns: start, end_ns: end } = selection;
  if (selection.ids !== null) return plural(selection.ids.length, "selected event");
  if (start === null && end === null) {
    return selection.query === null ? "Selection" : "Events by query";
  }
  const span: Span = [start ?? scene.range[0], end ?? scene.range[1]];
  return `Selection ${spanText(span)} (${formatDuration(span[1] - span[0])})`;
}

export function selectionText(
  selection: SelectionJson,
  scene: Scene,
  totals: Totals | null,
): RichText {
  const sentence: RichText = [{ strong: selectionHead(selection, scene) }];
  if (selection.ids === null) sentence.push(` on ${rowsText(selection, scene)}`);
  if (totals === null) return [...sentence, "."];
  sentence.push(`: ${plural(totals.events, "event")}`);
  for (const row of mainKinds(totals)) sentence.push(`, ${formatDuration(row.sum)} ${row.kind}`);
  return [...sentence, "."];
}

export interface HitCount {
  text: string;
  /** Number of the displayed match, starting at 1; 0 if there is none. */
  index: number;
  total: number;
  inView: number | null;
}

export function searchText(hits: HitCount): RichText {
  if (hits.total === 0) return ["No name matches ", { strong: hits.text }, "."];
  const sentence: RichText = ["Search ", { strong: hits.text }, ": "];
  if (hits.index > 0) sentence.push(`hit ${formatCount(hits.index)} of ${formatCount(hits.total)}`);
  else sentence.push(plural(hits.total, "hit"));
  if (hits.inView !== null) sentence.push(`, ${formatCount(hits.inView)} in view`);
  sentence.push(" · ", { key: "Enter" }, " next · ", { key: "Esc" }, " leave");
  return sentence;
}

export function brushText(span: Span): RichText {
  return [{ strong: formatDuration(span[1] - span[0]) }, ` from ${spanText(span)}`];
}

// Python code for the view that is valid for any names in the trace.

export function pythonString(text: string): string {
  return toPythonString(text, '"');
}

/** Format an integer with digit groups, which make nanoseconds legible. */
export function pythonInt(value: number): string {
  const digits = BigInt(Math.round(value)).toString();
  return digits.replace(/\B(?=(\d{3})+(?!\d))/g, "_");
}

/** Return the keyword arguments of `traces.select` for a selection. */
function selectionArguments(selection: SelectionJson | null): string[] {
  if (selection === null) return [];
  const { query, start_ns: start, end_ns: end, ranks, tracks, ids, launches } = selection;
  const texts = [
    query !== null && pythonString(query),
    start !== null && `start_ns=${pythonInt(start)}`,
    end !== null && `end_ns=${pythonInt(end)}`,
    ranks !== null && `ranks=[${ranks.join(", ")}]`,
    tracks !== null && `tracks=[${tracks.map(pythonString).join(", ")}]`,
    ids !== null && `ids={${ids.map(([rank, id]) => `(${rank}, ${id})`).join(", ")}}`,
    launches === true && "launches=True",
  ];
  return texts.filter((text) => text !== false);
}

/** Return Python code for a selection. `clock`: the clock of its times, if not as recorded. */
export function selectionCode(selection: SelectionJson | null, clock?: "fitted"): string {
  const isTimed = selection !== null && (selection.start_ns ?? selection.end_ns) !== null;
  const traces = isTimed && clock !== undefined ? `traces.with_clock("${clock}")` : "traces";
  return `${traces}.select(${selectionArguments(selection).join(", ")})`;
}

/** Return Python code that gets an event and its arguments. */
export function eventCode(event: Brief): string {
  const trace = `traces[${event.rank}]`;
  if (event.table !== "events") return `${trace}.${event.table}.loc[${event.id}]`;
  return `event = ${trace}.events.loc[${event.id}]\nargs = ${trace}.args(${event.id})`;
}

export interface ExportChoice {
  path: string;
  selection: SelectionJson | null;
  clip: boolean;
  launches: boolean;
  counters: boolean;
  scrub: boolean;
}

export function exportCode(choice: ExportChoice, clock?: "fitted"): string {
  const parts = ["traces", pythonString(choice.path)];
  if (choice.selection !== null) parts.push(selectionCode(choice.selection, clock));
  for (const name of ["clip", "launches", "counters", "scrub"] as const) {
    if (choice[name]) parts.push(`${name === "launches" ? "keep_launches" : name}=True`);
  }
  return `hw.export_trace(${parts.join(", ")})`;
}

/** Return a pandas query for events with exactly this name and, if given, this category. */
export function nameFilter(name: string, category: string | null = null): string {
  const query = `name == ${pythonString(name)}`;
  return category === null ? query : `${query} and category == ${pythonString(category)}`;
}

// Descriptions of a collective.

/** Return the rank that came last; null if several came last together. */
export function lastRankOf(collective: Collective): Member | null {
  if (collective.late <= 0) return null;
  return collective.ranks.find(({ rank }) => rank === collective.last_rank) ?? null;
}

/** Return a text such as `Collective 13 of 21`. */
export function countText({ number, of }: Collective): string {
  return `Collective ${formatCount(number)} of ${formatCount(of)}`;
}

/** Return a text such as `7 ranks waited 5.49–6.23 ms, transfer 1.21 ms`. */
export function waitsText({ ranks }: Collective): string {
  const waits = ranks.map(({ wait }) => wait).filter((wait) => wait > 0);
  const transfers = ranks.map(({ transfer }) => transfer).sort((a, b) => a - b);
  const transfer = transfers[transfers.length >> 1] ?? 0;
  const took = `transfer ${formatDuration(transfer)}`;
  if (waits.length === 0) return `no rank waited, ${took}`;
  const [min, max] = [Math.min(...waits), Math.max(...waits)];
  const range = min === max ? formatDuration(min) : formatRange(min, max);
  return `${plural(waits.length, "rank")} waited ${range}, ${took}`;
}
