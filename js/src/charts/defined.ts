/**
 * Contents of charts of rows from the JSON files in `hta_widgets/charts/definitions`, which
 * Python's `charts/defined.py` reads for Bokeh figures; docs/architecture.md describes their format.
 */

import breakdown from "../../../hta_widgets/charts/definitions/breakdown.json";
import byteps_blame from "../../../hta_widgets/charts/definitions/byteps_blame.json";
import byteps_clock from "../../../hta_widgets/charts/definitions/byteps_clock.json";
import byteps_servers from "../../../hta_widgets/charts/definitions/byteps_servers.json";
import idle from "../../../hta_widgets/charts/definitions/idle.json";
import inks from "../../../hta_widgets/charts/definitions/inks.json";
import kernel_durations from "../../../hta_widgets/charts/definitions/kernel_durations.json";
import kernel_types from "../../../hta_widgets/charts/definitions/kernel_types.json";
import mpi_routines from "../../../hta_widgets/charts/definitions/mpi_routines.json";
import overlap from "../../../hta_widgets/charts/definitions/overlap.json";
import queue from "../../../hta_widgets/charts/definitions/queue.json";
import steps from "../../../hta_widgets/charts/definitions/steps.json";
import causes from "../../../hta_widgets/facts/causes.json";
import { type Cause, CAUSES } from "../facts/panels";
import type { Chosen, PanelFrame } from "../protocol/source";
import {
  formatAxis,
  formatCount,
  formatDuration,
  formatShare,
  formatShareDelta,
} from "../ui/formats";
import { sum } from "../expressions/numbers";
import { niceTicks, noteOf, sentences, unmatched } from "../ui/text";
import type { Theme } from "../ui/theme";
import type { Column } from "./bokeh";
import {
  factRanks,
  type Hit,
  type Inside,
  type Key,
  lateRanks,
  markedRows,
  type RowsContent,
  type Tip,
} from "./content";
import {
  type Cell,
  codes,
  evaluate,
  fill,
  isRows,
  number,
  numbersOf,
  rowsOf,
  type Scope,
  type Value,
} from "./language";

/** An expression, or a number. */
type Code = string | number;

interface When {
  when?: string;
}

interface Sentence extends When {
  text: string;
}

type Line = readonly [what: string, text: string];

interface Tooltip {
  heading: string;
  lines: readonly (Line | (When & { of: Line }))[];
}

interface Part {
  name: string;
  ns: string;
  ink: string;
  at_end?: boolean;
}

interface Stack {
  /** The whole that parts are shares of. */
  of?: string;
  parts?: readonly Part[];
  /** Or a column with the part of each item, and the columns of its time and its share. */
  by?: string;
  value?: string;
  share?: string;
  text?: string;
  /** The facts that label the parts. */
  labels?: "causes";
}

interface Mark extends When {
  bar?: readonly [Code, Code];
  line?: readonly [Code, Code];
  dot?: string;
  ink: string;
  name?: string;
  size?: Code;
  marker?: string;
  angle?: string;
  hatch?: string;
  hatch_ink?: string;
  /** A text in a bar, where it has room. */
  inside?: string;
  tip?: Tooltip;
  selects?: { ranks?: string; window: readonly [string, string] };
}

interface Ticks extends When {
  as: "duration" | "duration_delta" | "share_delta" | "count";
  to: Code;
  from?: Code;
  most: Code;
  zero?: string;
  /** Or places, each with a text. */
  at?: string;
  text?: string;
}

interface TextColumn extends When {
  head?: string;
  text: string;
  from?: number;
  late?: string;
  strong?: string;
}

export interface Definition {
  title: string;
  /** The title before there is a frame. */
  short?: string;
  needs: readonly string[];
  uses?: readonly string[];
  attrs?: Readonly<Record<string, string | number>>;
  from?: { let?: Readonly<Record<string, string>>; keep?: string; sort?: readonly string[] };
  group?: readonly string[];
  let?: Readonly<Record<string, string>>;
  empty?: { when: string; text: string };
  subtitle: readonly (string | Sentence)[];
  unmatched?: readonly string[];
  finding: readonly (string | Sentence)[];
  rows: {
    name: string;
    keys: readonly string[];
    selects: "ranks" | "names" | "kinds" | "window";
    rank?: string;
    late?: string;
    head?: string;
    pitch?: number;
    ruled?: boolean;
    second?: TextColumn;
    ends?: TextColumn & { at: string };
  };
  scale: { from?: Code; to: Code; zero_line?: Code; ticks?: readonly Ticks[] };
  stack?: Stack;
  marks?: readonly Mark[];
  order?: string;
  place?: string;
  columns?: readonly TextColumn[];
  tip: Tooltip;
}

interface Ink {
  fill: string;
  line?: string;
  hatch?: string;
  on?: string;
}

const INKS: Readonly<Record<string, Ink>> = inks;

/** By the panel that shows the chart. */
export const DEFINITIONS = {
  breakdown,
  overlap,
  idle,
  queue,
  kernel_types,
  kernel_durations,
  steps,
  byteps_blame,
  byteps_servers,
  byteps_clock,
  mpi_routines,
} as unknown as Readonly<Record<string, Definition>>;

/** What people read of a cause: `host: data loading`. */
export function causeWords(name: string): string {
  return name in causes ? causes[name as Cause].label : name.replaceAll("_", " ");
}

/** What a frame shows as its definition says, or why it shows nothing. */
export function contentOf(look: Definition, frame: PanelFrame, theme: Theme): RowsContent | string {
  const scope = scopeOf(look, frame);
  const rowOf = scope.get("row") as number[] | undefined;
  if (rowOf === undefined || rowOf.length === 0) return noteOf(frame) || "nothing to draw";
  if (look.empty !== undefined && evaluate(look.empty.when, scope)) {
    return noteOf(frame) || look.empty.text;
  }
  const names = scope.get("names") as string[];
  const data: Record<string, Column> = { row: rowOf };
  const stack = stacked(look, scope, data, theme);
  scope.set("ends", stack.ends).set("parts", stack.said);
  const marks = look.marks ?? [];
  const parts = look.stack?.parts?.length ?? 0;
  const legend = marks.flatMap((mark, at): [number, string][] =>
    mark.name === undefined ? [] : [[parts + at, mark.name]],
  );
  for (const mark of marks) addMark(mark, scope, data, theme);
  if (look.place !== undefined) data.row = numbersOf(evaluate(look.place, scope));
  const order = look.order === undefined ? null : ordered([evaluate(look.order, scope) as Cell[]]);
  if (order !== null) {
    for (const [name, values] of Object.entries(data)) data[name] = order.map((at) => values[at]);
  }
  const { rows, scale } = look;
  const one = (code: Code): number => number(evaluate(code, scope) as Cell);
  const filled = new Map<string, readonly string[]>();
  const texts = (template: string): readonly string[] => {
    const known = filled.get(template) ?? (rowsOf(fill(template, scope), names.length) as string[]);
    filled.set(template, known);
    return known;
  };
  const rowsWhere = (code: string): Set<number> =>
    new Set(rowsOf(evaluate(code, scope), names.length).flatMap((is, at) => (is ? [at] : [])));
  const line = (each: Line | (When & { of: Line })): Line => ("of" in each ? each.of : each);
  const said = (all: readonly (string | Sentence)[]): string[] =>
    shown(all, scope).map((each) =>
      String(fill(typeof each === "string" ? each : each.text, scope)),
    );
  const finding = sentences(...said(look.finding));
  scope.set("finding", finding);
  const keys = rows.keys.map((code) => rowsOf(evaluate(code, scope), names.length));
  const ranks = rows.rank === undefined ? null : numbersOf(evaluate(rows.rank, scope));
  return {
    title: String(fill(look.title, scope)),
    subtitle: sentences(...said(look.subtitle), unmatched(frame, look.unmatched)),
    finding,
    names,
    keys: names.map((_, row) => keys.flatMap((column) => column[row] as Key | Key[])),
    ...(ranks === null ? {} : markedRows(frame, ranks)),
    ...(rows.late === undefined ? {} : { late: rowsWhere(rows.late) }),
    data,
    xStart: one(scale.from ?? 0),
    xEnd: one(scale.to) || 1,
    ticks: ticksOf(scale.ticks ?? [], scope),
    zeroLine: Boolean(one(scale.zero_line ?? 0)),
    ...(rows.ruled === true ? { ruled: true } : {}),
    head: rows.head ?? "",
    ...(rows.pitch === undefined ? {} : { pitch: rows.pitch }),
    columns: shown(look.columns ?? [], scope).map(({ head, text, from, late, strong }) => ({
      head: head ?? "",
      texts: texts(text),
      ...(from === undefined ? {} : { least: from }),
      ...(late === undefined ? {} : { late: rowsWhere(late) }),
      ...(strong === undefined ? {} : { strong: rowsWhere(strong) }),
    })),
    ...(rows.second === undefined ? {} : { seconds: texts(rows.second.text) }),
    ...(rows.ends === undefined ? {} : { ends: endsOf(rows.ends, texts(rows.ends.text), scope) }),
    inside: stack.inside,
    legend: [...stack.legend, ...legend],
    tip: (row) => ({
      heading: texts(look.tip.heading)[row]!,
      lines: shown(look.tip.lines, scope).flatMap((each) => {
        const [what, text] = line(each);
        if (what === "{parts}") return stack.lines(row);
        return [[texts(what)[row]!, texts(text)[row]!] as const];
      }),
    }),
    ...selecting(look, scope, data, order),
  };
}

function shown<T extends string | readonly unknown[] | When>(
  several: readonly T[],
  scope: Scope,
): T[] {
  return several.filter((each) => {
    const when = typeof each === "object" && "when" in each ? each.when : undefined;
    return when === undefined || Boolean(evaluate(when, scope));
  });
}

/** The order of rows by several columns, the first one first. */
function ordered(columns: readonly (readonly Cell[])[]): number[] {
  const before = (a: number, b: number): number => {
    for (const column of columns) {
      if (column[a]! < column[b]!) return -1;
      if (column[a]! > column[b]!) return 1;
    }
    return a - b;
  };
  return columns[0]!.map((_, at) => at).sort(before);
}

/** Numbers, flags or texts; unknown numbers are NaN. */
function columnOf(frame: PanelFrame, name: string): Cell[] {
  const values = Array.from(frame.columns[name] ?? new Array<null>(frame.rows).fill(null));
  const known = values.find((value) => value !== null);
  if (typeof known === "string")
    return values.map((value) => (value === null ? "" : String(value)));
  if (typeof known === "boolean") return values.map(Boolean);
  return values.map((value) => (typeof value === "number" ? value : NaN));
}

/** The values that texts and marks may name. */
function scopeOf(look: Definition, frame: PanelFrame): Scope {
  const scope: Scope = new Map<string, Value>([
    ["nan", NaN],
    ["late_ranks", new Set(lateRanks(frame))],
    ["fact_ranks", new Set(factRanks(frame))],
  ]);
  for (const [name, least] of Object.entries(look.attrs ?? {})) {
    scope.set(name, (frame.attrs[name] ?? least) as Cell);
  }
  for (const name of [...look.needs, ...(look.uses ?? [])]) scope.set(name, columnOf(frame, name));
  if (frame.rows === 0) return scope;
  let rows = Array.from({ length: frame.rows }, (_, at) => at);
  if (look.from !== undefined) {
    const { keep, sort } = look.from;
    for (const [name, code] of Object.entries(look.from.let ?? {})) {
      scope.set(name, evaluate(code, scope));
    }
    if (sort !== undefined) rows = ordered(sort.map((code) => evaluate(code, scope) as Cell[]));
    const kept = keep === undefined ? null : rowsOf(evaluate(keep, scope), frame.rows);
    if (kept !== null) rows = rows.filter((at) => kept[at]);
    for (const [name, value] of scope) {
      if (isRows(value))
        scope.set(
          name,
          rows.map((at) => value[at]!),
        );
    }
  }
  if (rows.length === 0) return scope;
  const group = look.group?.map((name) => scope.get(name) as Cell[]);
  scope.set("row", group === undefined ? rows.map((_, at) => at) : codes(group));
  for (const [name, code] of Object.entries(look.let ?? {})) scope.set(name, evaluate(code, scope));
  return scope.set("names", fill(look.rows.name, scope));
}

/** A colour: `late`, `kind.compute`. */
function inkOf(token: string, theme: Theme): string {
  const [name, kind] = token.split(".") as [string, string | undefined];
  const found =
    theme[name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()) as "kind" | "ink"];
  if (typeof found === "string") return found;
  return found[kind as keyof Theme["kind"]] ?? found.other;
}

interface Stacked {
  inside: Inside[];
  legend: [mark: number, text: string][];
  said: string;
  ends: number[];
  lines(row: number): Line[];
}

/** Adds the columns of stacked bars. */
function stacked(
  look: Definition,
  scope: Scope,
  data: Record<string, Column>,
  theme: Theme,
): Stacked {
  const { stack } = look;
  const rows = (scope.get("names") as string[]).length;
  if (stack === undefined) return { inside: [], legend: [], said: "", ends: [], lines: () => [] };
  if (stack.by !== undefined) return stackedBy(stack, scope, data, theme);
  const whole = stack.of === undefined ? null : numbersOf(evaluate(stack.of, scope));
  const inside: Inside[] = [];
  let left = new Array<number>(rows).fill(0);
  const parts = stack.parts!.map((part, at) => {
    const ink = INKS[part.ink]!;
    const ns = numbersOf(evaluate(part.ns, scope), rows).map((each) => each || 0);
    const size =
      whole === null ? ns : ns.map((each, row) => (whole[row]! > 0 ? each / whole[row]! : 0));
    const right = left.map((each, row) => each + size[row]!);
    // A zero-width bar would still draw its outline.
    const seen = (edges: number[]): number[] =>
      ink.line === undefined ? edges : edges.map((each, row) => (size[row]! > 0 ? each : NaN));
    data[`left_${at}`] = seen(left);
    data[`right_${at}`] = seen(right);
    if (whole !== null && ink.on !== undefined) {
      const color = inkOf(ink.on, theme);
      const plate = ink.hatch === undefined ? undefined : inkOf(ink.fill, theme);
      size.forEach((each, row) => {
        if (!(each > 0)) return;
        const edges = { row, left: left[row]!, right: right[row]! };
        inside.push({
          ...edges,
          text: formatShare(each),
          color,
          plate,
          atEnd: part.at_end === true,
        });
      });
    }
    left = right;
    return { at, name: String(fill(part.name, scope)), ns, size };
  });
  const kept = parts.filter(({ ns }) => ns.some((each) => each > 0));
  const all = Math.max(sum(whole ?? []), 1);
  return {
    inside,
    legend: kept.map(({ at, name }) => [at, name]),
    said: kept.map(({ name, ns }) => `${name} ${formatShare(sum(ns) / all)}`).join(", "),
    ends: left,
    lines: (row) =>
      kept.map(({ name, ns, size }) => [
        name,
        `${formatDuration(ns[row]!)} · ${formatShare(size[row]!)}`,
      ]),
  };
}

/** Adds the columns of bars whose parts are items of the frame. */
function stackedBy(
  stack: Stack,
  scope: Scope,
  data: Record<string, Column>,
  theme: Theme,
): Stacked {
  const by = scope.get(stack.by!) as string[];
  const row = scope.get("row") as number[];
  const size = numbersOf(evaluate(stack.value!, scope)).map((each) => Math.max(each, 0) || 0);
  const share = scope.get(stack.share!) as number[];
  const ends = (scope.get("names") as string[]).map(() => 0);
  const [left, right]: [number[], number[]] = [[], []];
  const inside: Inside[] = [];
  size.forEach((each, at) => {
    const from = ends[row[at]!]!;
    const to = (ends[row[at]!] = from + each);
    // A zero-width bar would still draw its outline.
    left.push(each > 0 ? from : NaN);
    right.push(each > 0 ? to : NaN);
    const on = INKS[by[at]!]?.on;
    if (on === undefined || !(share[at]! > 0)) return;
    const edges = { row: row[at]!, left: left[at]!, right: right[at]! };
    inside.push({ ...edges, text: formatShare(share[at]!), color: inkOf(on, theme) });
  });
  Object.assign(data, { left, right, [stack.by!]: by });
  const sums = new Map<string, number>();
  size.forEach((each, at) => sums.set(by[at]!, (sums.get(by[at]!) ?? 0) + each));
  const kept = CAUSES.flatMap((name, mark) => {
    const of = sums.get(name) ?? 0;
    return of > 0 ? [{ mark, words: causeWords(name), of }] : [];
  });
  return {
    inside,
    legend: kept.map(({ mark, words }) => [mark, words]),
    said: kept.map(({ words, of }) => `${words} ${formatShare(of / sum(size))}`).join(", "),
    ends,
    lines: (at) => {
      const texts = fill(stack.text!, scope) as string[];
      return by.flatMap((name, each): Line[] =>
        row[each] === at && size[each]! > 0 ? [[causeWords(name), texts[each]!]] : [],
      );
    },
  };
}

/** Adds the columns that a mark names: colours are names of inks. */
function addMark(mark: Mark, scope: Scope, data: Record<string, Column>, theme: Theme): void {
  const items = (scope.get("row") as number[]).length;
  const ends = mark.bar ?? mark.line ?? [mark.dot!];
  for (const code of [...ends, mark.size, mark.marker, mark.angle, mark.hatch]) {
    if (typeof code === "string") data[code] = rowsOf(evaluate(code, scope), items);
  }
  for (const ink of [mark.ink, mark.hatch_ink]) {
    if (ink?.startsWith("@") !== true) continue;
    const name = ink.slice(1);
    const tokens = rowsOf(evaluate(name, scope), items);
    data[name] = tokens.map((token) => inkOf(String(token), theme));
  }
}

function ticksOf(several: readonly Ticks[], scope: Scope): [at: number, text: string][] {
  const ticks = shown(several, scope)[0];
  if (ticks === undefined) return [];
  if (ticks.at !== undefined) {
    const texts = fill(ticks.text!, scope) as string[];
    return numbersOf(evaluate(ticks.at, scope)).map((at, each) => [at, texts[each]!]);
  }
  const [to, from, most] = [ticks.to, ticks.from ?? 0, ticks.most].map((code) =>
    number(evaluate(code, scope) as Cell),
  ) as [number, number, number];
  const all = niceTicks(to, most, from);
  const step = all.length > 1 ? all[1]! - all[0]! : Math.max(to, 1);
  const words = (at: number): string => {
    if (at === 0 && ticks.zero !== undefined) return ticks.zero;
    if (ticks.as === "share_delta") return formatShareDelta(at);
    if (ticks.as === "count") return formatCount(at);
    return `${ticks.as === "duration_delta" && at > 0 ? "+" : ""}${formatAxis(at, step)}`;
  };
  return all
    .filter((at) => ticks.as !== "count" || Number.isInteger(at))
    .map((at) => [at, words(at)]);
}

function endsOf(
  { at }: { at: string },
  texts: readonly string[],
  scope: Scope,
): NonNullable<RowsContent["ends"]> {
  return numbersOf(evaluate(at, scope)).map((each, row) => ({ row, at: each, text: texts[row]! }));
}

/** What marks select that are more than their row. */
function selecting(
  look: Definition,
  scope: Scope,
  data: Record<string, Column>,
  order: readonly number[] | null,
): Pick<RowsContent, "hit" | "within" | "chosenMarks"> {
  const mark = look.marks?.find(({ selects }) => selects !== undefined);
  if (mark?.selects === undefined || mark.tip === undefined) return {};
  const { ranks, window } = mark.selects;
  const row = data.row as number[];
  const items = order ?? row.map((_, at) => at);
  const [start, end] = window.map((code) => numbersOf(evaluate(code, scope))) as [
    number[],
    number[],
  ];
  const rank = ranks === undefined ? null : numbersOf(evaluate(ranks, scope));
  const { tip } = mark;
  const filled = new Map<string, readonly Cell[]>();
  const tipOf = (item: number): Tip => {
    const text = (template: string): string => {
      const known = filled.get(template) ?? rowsOf(fill(template, scope), items.length);
      filled.set(template, known);
      return String(known[item]);
    };
    return {
      heading: text(tip.heading),
      lines: shown(tip.lines, scope).map((each) => {
        const [what, value] = "of" in each ? each.of : each;
        return [text(what), text(value)];
      }),
    };
  };
  const hitOf = (at: number): Hit | null => {
    const item = items[at];
    if (item === undefined) return null;
    return {
      tip: tipOf(item),
      ranks: rank === null ? [] : [rank[item]!],
      window: [start[item]!, end[item]!],
    };
  };
  const at = data[mark.dot ?? ""] as number[];
  return {
    hit: (x, y, reachX, reachY) => {
      let [best, distance] = [-1, 1];
      at.forEach((dot, index) => {
        const far = Math.hypot((dot - x) / reachX, (row[index]! - y) / reachY);
        if (far <= distance) [best, distance] = [index, far];
      });
      return hitOf(best);
    },
    within: (x0, x1, y0, y1) => {
      const met = items.filter(
        (_, dot) => at[dot]! >= x0 && at[dot]! <= x1 && row[dot]! >= y0 && row[dot]! <= y1,
      );
      return [...new Set(met.map((item) => rank![item]!))].sort((a, b) => a - b);
    },
    chosenMarks: (chosen: Chosen) => {
      if (chosen.ranks === null && chosen.window === null) return null;
      const wanted = chosen.ranks === null ? null : new Set(chosen.ranks);
      const [from, to] = chosen.window ?? [-Infinity, Infinity];
      return items.flatMap((item, index) =>
        start[item]! < to && end[item]! > from && wanted?.has(rank![item]!) !== false
          ? [index]
          : [],
      );
    },
  };
}
