/**
 * Contents of charts from their definitions, which Python's `charts/defined.py` reads for Bokeh
 * figures.
 */

import causes from "../../../hta_widgets/facts/causes.json";
import { sum } from "../expressions/numbers";
import { noteFor } from "../facts/notes";
import { type Cause, CAUSES } from "../facts/panels";
import { getOrMake } from "../protocol/maps";
import type { Chosen, PanelFrame } from "../protocol/source";
import {
  formatAxis,
  formatCount,
  formatDuration,
  formatShare,
  formatShareDelta,
} from "../ui/formats";
import { niceTicks, noteOf, sentences, unmatched } from "../ui/text";
import { shade, textOn, type Theme } from "../ui/theme";
import {
  factRanks,
  type Hit,
  type Inside,
  type Key,
  lateRanks,
  type Mark,
  markedRows,
  type RowsContent,
  type Tip,
} from "./content";
import {
  type Cell,
  codes,
  columnOf,
  evaluate,
  fill,
  filler,
  isRows,
  number,
  numbersOf,
  ordered,
  type Rows,
  rowsOf,
  rowsWhere,
  type Scope,
  taken,
  type Value,
} from "./language";
import {
  type Code,
  type Definition,
  type Line,
  type MarkLook,
  type Places,
  type Sentence,
  type Stack,
  type Ticks,
  type Tooltip,
  type When,
  INKS,
} from "./definition";
import {
  foldedFrame,
  foldedLines,
  foldedWords,
  foldItems,
  type Groups,
  groupsOf,
  setMembers,
} from "./folding";
import type { Style } from "./paint";

/** Display name of a cause: `host: data loading`. */
export function causeWords(name: string): string {
  return name in causes ? causes[name as Cause].label : name.replaceAll("_", " ");
}

/** Content of a frame by its definition, or the reason that there is nothing to show. */
export function contentOf(look: Definition, frame: PanelFrame, theme: Theme): RowsContent | string {
  // Texts and scale refer to all ranks, even if similar ranks are folded.
  const whole = scopeOf(look, frame);
  if (!whole.has("row")) return noteOf(frame) || noteFor("nothing");
  if (look.empty !== undefined && evaluate(look.empty.when, whole)) {
    return noteOf(frame) || look.empty.text;
  }
  const { ends, said } = stacked(look, whole, {}, theme);
  whole.set("ends", ends).set("parts", said);
  const { rows, scale, marks = [], fold } = look;
  const scope = foldedScope(look, frame, whole);
  const rowOf = scope.get("row") as Float64Array;
  const names = scope.get("names") as string[];
  const data: Record<string, Rows> = { row: rowOf };
  const stack = stacked(look, scope, data, theme);
  scope.set("ends", stack.ends).set("parts", stack.said);
  const legend = marks.flatMap((mark): [Style, string][] =>
    mark.name === undefined ? [] : [[styleOf(mark.ink, theme), mark.name]],
  );
  const inMarks = marks.map((mark) => addMark(mark, scope, data, theme));
  const isFolded = scope !== whole && fold !== undefined;
  if (isFolded) addSpread(look, scope, data);
  if (look.place !== undefined) data.row = numbersOf(evaluate(look.place, scope));
  const order = look.order === undefined ? null : ordered([evaluate(look.order, scope) as Rows]);
  if (order !== null) {
    for (const [name, values] of Object.entries(data)) data[name] = taken(values, order);
  }
  const one = (code: Code): number => number(evaluate(code, whole));
  const each = (code: string): Rows => rowsOf(evaluate(code, scope), names.length);
  const texts = (template: string): readonly string[] =>
    rowsOf(fill(template, scope), names.length) as string[];
  const keys = rows.keys.map(each);
  const ranks = rows.rank === undefined ? null : numbersOf(evaluate(rows.rank, scope));
  const flagged = (code: string | undefined): Set<number> | undefined =>
    code === undefined ? undefined : new Set(rowsWhere(each(code)));
  const marked = ranks === null ? undefined : markedRows(frame, ranks);
  const tip = tipsOf(look.tip, scope, stack.lines);
  const drawn = [...stack.marks, ...marks.map((mark) => markOf(mark, data, theme))];
  const spread = isFolded ? [markOf(SPREAD, data, theme)] : [];
  const more = isFolded && rowsAreRanks(look) ? firstItems(rowOf) : null;
  const words = spoken(look, frame, whole);
  return {
    ...words,
    subtitle: isFolded ? sentences(words.subtitle, foldedWords(fold)) : words.subtitle,
    names,
    keys: names.map((_, row) => keys.flatMap((column) => column[row] as Key | Key[])),
    late: flagged(rows.late) ?? marked?.late,
    facts: marked?.facts,
    data,
    // The spread is drawn over bars and below dots.
    marks: rowsAreRanks(look) ? [...drawn, ...spread] : [...spread, ...drawn],
    xStart: one(scale.from ?? 0),
    xEnd: one(scale.to) || 1,
    ticks: ticksOf(scale.ticks ?? [], whole),
    zeroLine: Boolean(evaluate(scale.zero_line ?? 0, whole)),
    ruled: rows.ruled,
    head: rows.head ?? "",
    pitch: rows.pitch === undefined ? undefined : one(rows.pitch),
    columns: shown(look.columns ?? [], scope).map(({ head = "", text, from, late, strong }) => ({
      head,
      texts: texts(text),
      least: from,
      late: flagged(late),
      strong: flagged(strong),
    })),
    seconds: rows.second && texts(rows.second.text),
    ends: rows.ends && endsOf(rows.ends, texts(rows.ends.text), scope),
    inside: () => [...stack.inside(), ...inMarks.flatMap((each) => each())],
    legend: [...stack.legend, ...legend],
    tip: (row) => {
      const { heading, lines } = tip(row);
      const ofGroup = more === null ? [] : foldedLines(scope, fold!, more[row]!);
      return { heading, lines: [...lines, ...ofGroup] };
    },
    table: isFolded ? foldedFrame(scope, fold, frame) : undefined,
    ...selecting(look, scope, data, order),
  };
}

/** The line from the smallest to the largest value of ranks that share a row or mark. */
const SPREAD: MarkLook = { line: ["fold_low", "fold_high"], ink: "ink" };

/** The first item of each row. */
function firstItems(row: Float64Array): number[] {
  const found: number[] = [];
  row.forEach((of, item) => (found[of] ??= item));
  return found;
}

/** Add the columns of `SPREAD`; a row of several items has one line. */
function addSpread(look: Definition, scope: Scope, data: Record<string, Rows>): void {
  const row = scope.get("row") as Float64Array;
  const first = rowsAreRanks(look) ? new Set(firstItems(row)) : null;
  for (const name of ["fold_low", "fold_high"]) {
    const ends = scope.get(name) as Float64Array;
    data[name] = ends.map((end, item) => (first?.has(item) === false ? NaN : end));
  }
}

/** Texts above a chart; the subtitle may repeat the finding. */
export function spoken(
  look: Definition,
  frame: PanelFrame,
  scope: Scope,
): Pick<RowsContent, "title" | "subtitle" | "finding"> {
  const said = (all: readonly (string | Sentence)[]): string =>
    sentences(
      ...shown(all, scope).map((each) =>
        String(fill(typeof each === "string" ? each : each.text, scope)),
      ),
    );
  const finding = said(look.finding);
  scope.set("finding", finding);
  return {
    title: look.title,
    subtitle: sentences(
      said(look.subtitle),
      look.unmatched === null ? "" : unmatched(frame, look.unmatched),
    ),
    finding,
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

/** Return a function that fills the tooltip of a row on request. */
export function tipsOf(
  tip: Tooltip,
  scope: Scope,
  parts: (row: number) => readonly Line[] = () => [],
): (row: number) => Tip {
  const fillers = new Map<string, (row: number) => string>();
  const text = (template: string, row: number): string =>
    getOrMake(fillers, template, () => filler(template, scope).at)(row);
  return (row) => ({
    heading: text(tip.heading, row),
    lines: shown(tip.lines, scope).flatMap((each): readonly Line[] => {
      const [what, value] = "of" in each ? each.of : each;
      return what === "{parts}" ? parts(row) : [[text(what, row), text(value, row)]];
    }),
  });
}

const NONE: Groups = new Map();

/** Whether rows stand for ranks; otherwise, a row contains marks of several ranks. */
const rowsAreRanks = ({ rows }: Definition): boolean =>
  rows.rank !== undefined && rows.selects === "ranks";

/** The drawn scope: ranks of a group in the frame's attribute `folded` are combined. */
export function foldedScope(look: Definition, frame: PanelFrame, whole: Scope): Scope {
  const groups = look.fold === undefined ? NONE : groupsOf(frame);
  if (groups.size === 0) return whole;
  if (rowsAreRanks(look)) return scopeOf(look, frame, groups);
  const scope = new Map(whole);
  foldItems(scope, look.fold!, groups, [whole.get("row") as Rows]);
  return scope;
}

/** The values that the texts and marks of a definition may refer to. */
export function scopeOf(look: Definition, frame: PanelFrame, groups: Groups = NONE): Scope {
  const scope: Scope = new Map<string, Value>([
    ["nan", NaN],
    ["late_ranks", new Set(lateRanks(frame))],
    ["fact_ranks", new Set(factRanks(frame))],
  ]);
  for (const [name, least] of Object.entries(look.attrs ?? {})) {
    scope.set(name, (frame.attrs[name] ?? least) as Cell);
  }
  for (const name of [...look.needs, ...(look.uses ?? [])]) {
    scope.set(name, columnOf(frame.columns[name] ?? new Array<null>(frame.rows).fill(null)));
  }
  if (frame.rows === 0) return scope;
  let rows = rowsWhere(new Float64Array(frame.rows).fill(1));
  if (look.from !== undefined) {
    const { keep, sort } = look.from;
    for (const [name, code] of Object.entries(look.from.let ?? {})) {
      scope.set(name, evaluate(code, scope));
    }
    if (sort !== undefined) rows = ordered(sort.map((code) => evaluate(code, scope) as Rows));
    const kept = keep === undefined ? null : rowsOf(evaluate(keep, scope), frame.rows);
    if (kept !== null) rows = rows.filter((at) => Boolean(kept[at]));
    for (const [name, value] of scope) if (isRows(value)) scope.set(name, taken(value, rows));
  }
  if (rows.length === 0) return scope;
  if (groups.size > 0) foldItems(scope, look.fold!, groups);
  else if (look.fold !== undefined) {
    setMembers(
      scope,
      Array.from(scope.get("rank") as Float64Array, (rank) => [rank]),
    );
  }
  const items = (scope.get(look.needs[0]!) as Rows).length;
  const group = look.group?.map((name) => rowsOf(scope.get(name)!, items));
  scope.set(
    "row",
    group === undefined ? Float64Array.from(new Float64Array(items).keys()) : codes(group),
  );
  for (const [name, code] of Object.entries(look.let ?? {})) scope.set(name, evaluate(code, scope));
  return scope.set("names", fill(look.rows.name, scope));
}

/** A colour: `late`, `kind.compute`; `busy 0.3` and `lane>late 0.3` are mixtures. */
function inkOf(token: string, theme: Theme): string {
  const [names, part] = token.split(" ") as [string, string | undefined];
  const between = names.split(">");
  if (between.length > 1)
    return shade(
      between.map((name) => inkOf(name, theme)),
      Number(part),
    );
  const [name, kind] = names.split(".") as [string, string | undefined];
  const found =
    theme[name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()) as "kind" | "ink"];
  if (part !== undefined) return shade(found as unknown as string[], Number(part));
  if (typeof found === "string") return found;
  return found[kind as keyof Theme["kind"]] ?? found.other;
}

/** Style of bars by its name in the definitions. */
function styleOf(name: string, theme: Theme): Style {
  const ink = INKS[name]!;
  const [plain, ground] = [inkOf(ink.fill, theme), theme.bg];
  const fill = ink.alpha === undefined ? plain : shade([ground, plain], ink.alpha);
  return {
    fill,
    line: ink.outlined === true ? fill : ink.line && inkOf(ink.line, theme),
    hatch: ink.hatch,
    hatchInk: ink.hatch_ink && inkOf(ink.hatch_ink, theme),
  };
}

interface Stacked {
  marks: Mark[];
  inside(): Inside[];
  legend: [style: Style, text: string][];
  said: string;
  ends: Float64Array;
  lines(row: number): Line[];
}

/** Adds the columns of stacked bars. */
function stacked(
  look: Definition,
  scope: Scope,
  data: Record<string, Rows>,
  theme: Theme,
): Stacked {
  const { stack } = look;
  const rows = (scope.get("names") as string[]).length;
  let left = new Float64Array(rows);
  if (stack === undefined)
    return { marks: [], inside: () => [], legend: [], said: "", ends: left, lines: () => [] };
  if (stack.by !== undefined) return stackedBy(stack, scope, data, theme);
  const whole = stack.of === undefined ? null : numbersOf(evaluate(stack.of, scope));
  data.row = Float64Array.from(left.keys());
  const parts = stack.parts!.map((part, at) => {
    const ink = INKS[part.ink]!;
    const ns = numbersOf(evaluate(part.ns, scope), rows).map((each) => each || 0);
    const size =
      whole === null ? ns : ns.map((each, row) => (whole[row]! > 0 ? each / whole[row]! : 0));
    const [start, end] = [left, left.map((each, row) => each + size[row]!)];
    // A zero-width bar would still draw its outline.
    const seen = (edges: Float64Array): Float64Array =>
      ink.line === undefined ? edges : edges.map((each, row) => (size[row]! > 0 ? each : NaN));
    data[`left_${at}`] = seen(start);
    data[`right_${at}`] = seen(end);
    const inside = (): Inside[] => {
      if (whole === null || ink.on === undefined) return [];
      const color = inkOf(ink.on, theme);
      const plate = ink.hatch === undefined ? undefined : inkOf(ink.fill, theme);
      return Array.from(rowsWhere(size), (row) => ({
        ...{ row, left: start[row]!, right: end[row]!, color, plate },
        ...{ text: formatShare(size[row]!), atEnd: part.at_end === true },
      }));
    };
    left = end;
    const style = styleOf(part.ink, theme);
    const mark: Mark = {
      shape: "bar",
      left: `left_${at}`,
      right: `right_${at}`,
      style: () => style,
    };
    return { mark, style, name: String(fill(part.name, scope)), ns, size, inside };
  });
  const kept = parts.filter(({ ns }) => ns.some((each) => each > 0));
  const all = Math.max(sum(whole ?? []), 1);
  return {
    marks: kept.map(({ mark }) => mark),
    inside: () => parts.flatMap(({ inside }) => inside()),
    legend: kept.map(({ style, name }) => [style, name]),
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
function stackedBy(stack: Stack, scope: Scope, data: Record<string, Rows>, theme: Theme): Stacked {
  const by = scope.get(stack.by!) as string[];
  const row = scope.get("row") as Float64Array;
  const size = numbersOf(evaluate(stack.value!, scope)).map((each) => Math.max(each, 0) || 0);
  const share = scope.get(stack.share!) as Float64Array;
  const ends = new Float64Array((scope.get("names") as string[]).length);
  const [left, right] = [size.slice(), size.slice()];
  size.forEach((each, at) => {
    const from = ends[row[at]!]!;
    const to = (ends[row[at]!] = from + each);
    // A zero-width bar would still draw its outline.
    [left[at], right[at]] = each > 0 ? [from, to] : [NaN, NaN];
  });
  const inside = (): Inside[] =>
    Array.from(rowsWhere(share)).flatMap((at) => {
      const on = INKS[by[at]!]?.on;
      if (on === undefined || !(share[at]! > 0)) return [];
      const edges = { row: row[at]!, left: left[at]!, right: right[at]! };
      return [{ ...edges, text: formatShare(share[at]!), color: inkOf(on, theme) }];
    });
  Object.assign(data, { left, right, [stack.by!]: by });
  const sums = new Map<string, number>();
  size.forEach((each, at) => sums.set(by[at]!, (sums.get(by[at]!) ?? 0) + each));
  const kept = CAUSES.flatMap((name) => {
    const of = sums.get(name) ?? 0;
    return of > 0 ? [{ name, style: styleOf(name, theme), words: causeWords(name), of }] : [];
  });
  const styles = new Map<string, Style>(kept.map(({ name, style }) => [name, style]));
  const text = filler(stack.text!, scope);
  return {
    marks: [{ shape: "bar", left: "left", right: "right", style: (at) => styles.get(by[at]!) }],
    inside,
    legend: kept.map(({ style, words }) => [style, words]),
    said: kept.map(({ words, of }) => `${words} ${formatShare(of / sum(size))}`).join(", "),
    ends,
    lines: (at) =>
      by.flatMap((name, each): Line[] =>
        row[each] === at && size[each]! > 0 ? [[causeWords(name), text.at(each)]] : [],
      ),
  };
}

/** The mark to paint from the columns that a definition names. */
function markOf(mark: MarkLook, data: Record<string, Rows>, theme: Theme): Mark {
  const shape = mark.bar !== undefined ? "bar" : mark.line !== undefined ? "line" : "dot";
  const [left, right] = mark.bar ?? mark.line ?? [mark.dot!, mark.dot!];
  const { ink, hatch, hatch_ink, size, marker, angle } = mark;
  const column = (name: string): readonly string[] => data[name] as string[];
  const own = ink.startsWith("@");
  const plain = own ? undefined : ink in INKS ? styleOf(ink, theme) : { fill: inkOf(ink, theme) };
  return {
    shape,
    left,
    right: String(right),
    size,
    marker,
    angle,
    style: (at) => {
      if (plain !== undefined) return plain;
      const fill = column(ink.slice(1))[at]!;
      if (hatch === undefined) return { fill };
      const hatchInk = column(hatch_ink!.slice(1))[at]!;
      return { fill, hatch: column(hatch)[at]!, hatchInk, weight: 3, scale: 8 };
    },
  };
}

/** Adds the columns that a mark names, colours by their tokens; returns the texts in its bars. */
function addMark(
  mark: MarkLook,
  scope: Scope,
  data: Record<string, Rows>,
  theme: Theme,
): () => Inside[] {
  const row = scope.get("row") as Float64Array;
  const ends = mark.bar ?? mark.line ?? [mark.dot!];
  for (const code of [...ends, mark.size, mark.marker, mark.angle, mark.hatch]) {
    if (typeof code === "string") data[code] = rowsOf(evaluate(code, scope), row.length);
  }
  const colors = new Map<string, string>();
  const color = (token: string): string => getOrMake(colors, token, () => inkOf(token, theme));
  for (const ink of [mark.ink, mark.hatch_ink]) {
    if (ink?.startsWith("@") !== true) continue;
    const tokens = rowsOf(evaluate(ink.slice(1), scope), row.length) as string[];
    data[ink.slice(1)] = tokens.map(color);
  }
  const { inside } = mark;
  if (inside === undefined) return () => [];
  const [left, right] = ends.map((code) => numbersOf(evaluate(code, scope), row.length));
  const fills = data[mark.ink.slice(1)] as string[];
  return () =>
    (fill(inside, scope) as string[]).flatMap((text, at) => {
      const edges = { row: row[at]!, left: left![at]!, right: right![at]! };
      return text === "" ? [] : [{ ...edges, text, color: textOn(fills[at]!), cut: true }];
    });
}

function ticksOf(several: readonly (Ticks | Places)[], scope: Scope): [at: number, text: string][] {
  const ticks = shown(several, scope)[0];
  if (ticks === undefined) return [];
  if ("at" in ticks) {
    const [at, where] = [ticks.at, ticks.where].map((code) => numbersOf(evaluate(code, scope)));
    const { at: text } = filler(ticks.text, scope);
    return Array.from(rowsWhere(where!)).map((each) => [at![each]!, text(each)]);
  }
  const [to, from, most] = [ticks.to, ticks.from ?? 0, ticks.most].map((code) =>
    number(evaluate(code, scope)),
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
  const ends = numbersOf(evaluate(at, scope));
  const high = scope.get("fold_high") as Float64Array | undefined;
  // Texts start after the line that shows the spread of ranks that share a row.
  return texts.map((text, row) => ({ row, at: Math.max(ends[row]!, high?.[row] || 0), text }));
}

/** Tooltips and selections of marks that differ from their row's. */
function selecting(
  look: Definition,
  scope: Scope,
  data: Record<string, Rows>,
  order: Int32Array | null,
): Pick<RowsContent, "hit" | "within" | "windows" | "chosenMarks"> {
  const mark = look.marks?.find(({ tip }) => tip !== undefined);
  if (mark?.tip === undefined) return {};
  const { selects } = look.rows;
  const row = data.row as Float64Array;
  const items = order ?? Int32Array.from(row.keys());
  const [from, to] = (mark.bar ?? [mark.dot!, mark.dot!]).map((end) => data[end]) as [
    Float64Array,
    Float64Array,
  ];
  const tipOf = tipsOf(mark.tip, scope);
  const { keys, window } = mark.selects ?? {};
  const key =
    keys === undefined
      ? null
      : Array.from(rowsOf(evaluate(keys, scope), row.length), (own) => [own].flat() as Key[]);
  const [start, end] = (window ?? []).map((code) => numbersOf(evaluate(code, scope)));
  const hitOf = (at: number): Hit | null => {
    const item = items[at];
    if (item === undefined) return null;
    return {
      tip: tipOf(item),
      keys: key === null ? null : key[item]!,
      window: start === undefined ? null : [start[item]!, end![item]!],
    };
  };
  return {
    windows: window !== undefined,
    hit: (x, y, reachX, reachY) => {
      let [best, distance] = [-1, 1];
      from.forEach((left, at) => {
        const aside = Math.max(left - x, x - to[at]!, 0) / reachX;
        const above = Math.abs(row[at]! - y);
        // A bar is hit over the whole height of its row.
        const inRow = above <= 0.5 ? aside : Infinity;
        const far = mark.bar === undefined ? Math.hypot(aside, above / reachY) : inRow;
        if (far <= distance) [best, distance] = [at, far];
      });
      return hitOf(best);
    },
    within: key === null ? undefined : keysIn,
    chosenMarks: mark.selects && chosenOf,
  };
  function keysIn(x0: number, x1: number, y0: number, y1: number): Key[] {
    const met = items.filter(
      (_, at) => from[at]! >= x0 && from[at]! <= x1 && row[at]! >= y0 && row[at]! <= y1,
    );
    const found = [...new Set(Array.from(met).flatMap((item) => key![item]!))];
    return found.every((one) => typeof one === "number") ? found.sort((a, b) => a - b) : found;
  }

  function chosenOf(chosen: Chosen): number[] | null {
    const of = key === null || selects === "window" ? null : (chosen[selects] as Key[] | null);
    const wanted = of === null ? null : new Set(of);
    const within = start === undefined ? null : chosen.window;
    if (wanted === null && within === null) return null;
    const [low, high] = within ?? [-Infinity, Infinity];
    return Array.from(items.keys()).filter((at) => {
      const item = items[at]!;
      const inside = within === null || (start![item]! < high && end![item]! > low);
      return inside && (wanted === null || key![item]!.every((own) => wanted.has(own)));
    });
  }
}
