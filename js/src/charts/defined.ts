/**
 * Contents of charts from their definitions, which Python's `charts/defined.py` reads for Bokeh
 * figures.
 */

import causes from "../../../hta_widgets/facts/causes.json";
import { sum } from "../expressions/numbers";
import { noteFor } from "../facts/notes";
import { type Cause, CAUSES } from "../facts/panels";
import { getOrMake } from "../protocol/maps";
import type { ChartSelection, PanelFrame } from "../protocol/source";
import {
  formatAxis,
  formatCount,
  formatDuration,
  formatShare,
  formatShareDelta,
} from "../ui/formats";
import { niceTicks, frameNote, joinSentences, unmatchedText } from "../ui/text";
import { interpolateStops, textOn, type Theme } from "../ui/theme";
import {
  factRanks,
  type MarkHit,
  type BarText,
  type SelectionKey,
  lateRanks,
  type ChartMark,
  markedRows,
  type RowsContent,
  type TooltipContent,
} from "./content";
import {
  type ScalarValue,
  combineCodes,
  columnFromFrame,
  evaluate,
  fillTemplate,
  makeFiller,
  isColumn,
  toNumber,
  toNumbers,
  sortedOrder,
  type ColumnData,
  toColumn,
  indicesOfTrue,
  type EvaluationScope,
  takeRows,
  type ScopeValue,
} from "./language";
import {
  type Code,
  type Definition,
  type TooltipLineTemplate,
  type MarkDefinition,
  type TickPlaces,
  type ConditionalText,
  type StackDefinition,
  type TickDefinition,
  type TooltipTemplate,
  type Conditional,
  BAR_STYLES,
} from "./definition";
import {
  foldedFrame,
  foldedLines,
  foldedSubtitle,
  foldItems,
  type GroupOfRank,
  foldGroups,
  addMemberColumns,
} from "./folding";
import type { MarkStyle } from "./paint";

/** Display name of a cause: `host: data loading`. */
export function causeLabel(name: string): string {
  return name in causes ? causes[name as Cause].label : name.replaceAll("_", " ");
}

/** Content of a frame by its definition, or the reason that there is nothing to show. */
export function buildRowsContent(
  definition: Definition,
  frame: PanelFrame,
  theme: Theme,
): RowsContent | string {
  // Texts and scale refer to all ranks, even if similar ranks are folded.
  const whole = buildScope(definition, frame);
  if (!whole.has("row")) return frameNote(frame) || noteFor("nothing");
  if (definition.empty !== undefined && evaluate(definition.empty.when, whole)) {
    return frameNote(frame) || definition.empty.text;
  }
  const { endTimes, summary: stackSummary } = buildStack(definition, whole, {}, theme);
  whole.set("ends", endTimes).set("parts", stackSummary);
  const { rows, scale, marks = [], fold } = definition;
  const scope = buildFoldedScope(definition, frame, whole);
  const rowOf = scope.get("row") as Float64Array;
  const names = scope.get("names") as string[];
  const data: Record<string, ColumnData> = { row: rowOf };
  const stack = buildStack(definition, scope, data, theme);
  scope.set("ends", stack.endTimes).set("parts", stack.summary);
  const legend = marks.flatMap((mark): [MarkStyle, string][] =>
    mark.name === undefined ? [] : [[barStyle(mark.ink, theme), mark.name]],
  );
  const inMarks = marks.map((mark) => addMarkColumns(mark, scope, data, theme));
  const isFolded = scope !== whole && fold !== undefined;
  if (isFolded) addSpread(definition, scope, data);
  if (definition.place !== undefined) data.row = toNumbers(evaluate(definition.place, scope));
  const order =
    definition.order === undefined
      ? null
      : sortedOrder([evaluate(definition.order, scope) as ColumnData]);
  if (order !== null) {
    for (const [name, values] of Object.entries(data)) data[name] = takeRows(values, order);
  }
  const one = (code: Code): number => toNumber(evaluate(code, whole));
  const each = (code: string): ColumnData => toColumn(evaluate(code, scope), names.length);
  const texts = (template: string): readonly string[] =>
    toColumn(fillTemplate(template, scope), names.length) as string[];
  const keys = rows.keys.map(each);
  const ranks = rows.rank === undefined ? null : toNumbers(evaluate(rows.rank, scope));
  const rowsWhereTrue = (code: string | undefined): Set<number> | undefined =>
    code === undefined ? undefined : new Set(indicesOfTrue(each(code)));
  const flaggedRows = ranks === null ? undefined : markedRows(frame, ranks);
  const tooltip = tooltipFiller(definition.tip, scope, stack.lines);
  const drawnMarks = [...stack.marks, ...marks.map((mark) => buildMark(mark, data, theme))];
  const spreadMarks = isFolded ? [buildMark(SPREAD_MARK, data, theme)] : [];
  const firstOfGroup = isFolded && hasRankRows(definition) ? firstRowOfItems(rowOf) : null;
  const subtitleText = chartTexts(definition, frame, whole);
  return {
    ...subtitleText,
    subtitle: isFolded
      ? joinSentences(subtitleText.subtitle, foldedSubtitle(fold))
      : subtitleText.subtitle,
    names,
    keys: names.map((_, row) =>
      keys.flatMap((column) => column[row] as SelectionKey | SelectionKey[]),
    ),
    lateRows: rowsWhereTrue(rows.late) ?? flaggedRows?.lateRows,
    factRows: flaggedRows?.factRows,
    data,
    // The spread is drawn over bars and below dots.
    marks: hasRankRows(definition)
      ? [...drawnMarks, ...spreadMarks]
      : [...spreadMarks, ...drawnMarks],
    xStart: one(scale.from ?? 0),
    xEnd: one(scale.to) || 1,
    ticks: buildTicks(scale.ticks ?? [], whole),
    zeroLine: Boolean(evaluate(scale.zero_line ?? 0, whole)),
    hasRules: rows.ruled,
    head: rows.head ?? "",
    rowPitchPx: rows.pitch === undefined ? undefined : one(rows.pitch),
    columns: filterByCondition(definition.columns ?? [], scope).map(
      ({ head = "", text, from, late, strong }) => ({
        head,
        texts: texts(text),
        minWidthPx: from,
        lateRows: rowsWhereTrue(late),
        boldRows: rowsWhereTrue(strong),
      }),
    ),
    secondLines: rows.second && texts(rows.second.text),
    endTexts: rows.ends && buildEndTexts(rows.ends, texts(rows.ends.text), scope),
    barTexts: () => [...stack.barTexts(), ...inMarks.flatMap((each) => each())],
    legend: [...stack.legend, ...legend],
    tooltip: (row) => {
      const { heading, lines } = tooltip(row);
      const ofGroup = firstOfGroup === null ? [] : foldedLines(scope, fold!, firstOfGroup[row]!);
      return { heading, lines: [...lines, ...ofGroup] };
    },
    table: isFolded ? foldedFrame(scope, fold, frame) : undefined,
    ...markInteraction(definition, scope, data, order),
  };
}

/** The line from the smallest to the largest value of ranks that share a row or mark. */
const SPREAD_MARK: MarkDefinition = { line: ["fold_low", "fold_high"], ink: "ink" };

/** The first item of each row. */
function firstRowOfItems(row: Float64Array): number[] {
  const rows: number[] = [];
  row.forEach((of, item) => (rows[of] ??= item));
  return rows;
}

/** Add the columns of `SPREAD_MARK`; a row of several items has one line. */
function addSpread(
  definition: Definition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
): void {
  const row = scope.get("row") as Float64Array;
  const first = hasRankRows(definition) ? new Set(firstRowOfItems(row)) : null;
  for (const name of ["fold_low", "fold_high"]) {
    const edgeValues = scope.get(name) as Float64Array;
    data[name] = edgeValues.map((end, item) => (first?.has(item) === false ? NaN : end));
  }
}

/** Texts above a chart; the subtitle may repeat the finding. */
export function chartTexts(
  definition: Definition,
  frame: PanelFrame,
  scope: EvaluationScope,
): Pick<RowsContent, "title" | "subtitle" | "finding"> {
  const fillAll = (all: readonly (string | ConditionalText)[]): string =>
    joinSentences(
      ...filterByCondition(all, scope).map((each) =>
        String(fillTemplate(typeof each === "string" ? each : each.text, scope)),
      ),
    );
  const finding = fillAll(definition.finding);
  scope.set("finding", finding);
  return {
    title: definition.title,
    subtitle: joinSentences(
      fillAll(definition.subtitle),
      definition.unmatched === null ? "" : unmatchedText(frame, definition.unmatched),
    ),
    finding,
  };
}

function filterByCondition<T extends string | readonly unknown[] | Conditional>(
  conditionals: readonly T[],
  scope: EvaluationScope,
): T[] {
  return conditionals.filter((each) => {
    const when = typeof each === "object" && "when" in each ? each.when : undefined;
    return when === undefined || Boolean(evaluate(when, scope));
  });
}

/** Return a function that fills the tooltip of a row on request. */
export function tooltipFiller(
  template: TooltipTemplate,
  scope: EvaluationScope,
  stackLines: (row: number) => readonly TooltipLineTemplate[] = () => [],
): (row: number) => TooltipContent {
  const fillers = new Map<string, (row: number) => string>();
  const text = (template: string, row: number): string =>
    getOrMake(fillers, template, () => makeFiller(template, scope).at)(row);
  return (row) => ({
    heading: text(template.heading, row),
    lines: filterByCondition(template.lines, scope).flatMap(
      (line): readonly TooltipLineTemplate[] => {
        const [label, value] = "of" in line ? line.of : line;
        return label === "{parts}" ? stackLines(row) : [[text(label, row), text(value, row)]];
      },
    ),
  });
}

const NO_GROUPS: GroupOfRank = new Map();

/** Whether rows stand for ranks; otherwise, a row contains marks of several ranks. */
const hasRankRows = ({ rows }: Definition): boolean =>
  rows.rank !== undefined && rows.selects === "ranks";

/** The drawn scope: ranks of a group in the frame's attribute `folded` are combined. */
export function buildFoldedScope(
  definition: Definition,
  frame: PanelFrame,
  whole: EvaluationScope,
): EvaluationScope {
  const groups = definition.fold === undefined ? NO_GROUPS : foldGroups(frame);
  if (groups.size === 0) return whole;
  if (hasRankRows(definition)) return buildScope(definition, frame, groups);
  const scope = new Map(whole);
  foldItems(scope, definition.fold!, groups, [whole.get("row") as ColumnData]);
  return scope;
}

/** The values that the texts and marks of a definition may refer to. */
export function buildScope(
  definition: Definition,
  frame: PanelFrame,
  groups: GroupOfRank = NO_GROUPS,
): EvaluationScope {
  const scope: EvaluationScope = new Map<string, ScopeValue>([
    ["nan", NaN],
    ["late_ranks", new Set(lateRanks(frame))],
    ["fact_ranks", new Set(factRanks(frame))],
  ]);
  for (const [name, minimum] of Object.entries(definition.attrs ?? {})) {
    scope.set(name, (frame.attrs[name] ?? minimum) as ScalarValue);
  }
  for (const name of [...definition.needs, ...(definition.uses ?? [])]) {
    scope.set(name, columnFromFrame(frame.columns[name] ?? new Array<null>(frame.rows).fill(null)));
  }
  if (frame.rows === 0) return scope;
  let rows = indicesOfTrue(new Float64Array(frame.rows).fill(1));
  if (definition.from !== undefined) {
    const { keep, sort } = definition.from;
    for (const [name, code] of Object.entries(definition.from.let ?? {})) {
      scope.set(name, evaluate(code, scope));
    }
    if (sort !== undefined)
      rows = sortedOrder(sort.map((code) => evaluate(code, scope) as ColumnData));
    const keptRows = keep === undefined ? null : toColumn(evaluate(keep, scope), frame.rows);
    if (keptRows !== null) rows = rows.filter((at) => Boolean(keptRows[at]));
    for (const [name, value] of scope) if (isColumn(value)) scope.set(name, takeRows(value, rows));
  }
  if (rows.length === 0) return scope;
  if (groups.size > 0) foldItems(scope, definition.fold!, groups);
  else if (definition.fold !== undefined) {
    addMemberColumns(
      scope,
      Array.from(scope.get("rank") as Float64Array, (rank) => [rank]),
    );
  }
  const items = (scope.get(definition.needs[0]!) as ColumnData).length;
  const group = definition.group?.map((name) => toColumn(scope.get(name)!, items));
  scope.set(
    "row",
    group === undefined ? Float64Array.from(new Float64Array(items).keys()) : combineCodes(group),
  );
  for (const [name, code] of Object.entries(definition.let ?? {}))
    scope.set(name, evaluate(code, scope));
  return scope.set("names", fillTemplate(definition.rows.name, scope));
}

/** A colour: `late`, `kind.compute`; `busy 0.3` and `lane>late 0.3` are mixtures. */
function resolveColor(token: string, theme: Theme): string {
  const [names, alpha] = token.split(" ") as [string, string | undefined];
  const mixed = names.split(">");
  if (mixed.length > 1)
    return interpolateStops(
      mixed.map((name) => resolveColor(name, theme)),
      Number(alpha),
    );
  const [name, kind] = names.split(".") as [string, string | undefined];
  const themeColor =
    theme[name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()) as "kind" | "ink"];
  if (alpha !== undefined)
    return interpolateStops(themeColor as unknown as string[], Number(alpha));
  if (typeof themeColor === "string") return themeColor;
  return themeColor[kind as keyof Theme["kind"]] ?? themeColor.other;
}

/** Style of bars by its name in the definitions. */
function barStyle(name: string, theme: Theme): MarkStyle {
  const barDefinition = BAR_STYLES[name]!;
  const [plainColor, background] = [resolveColor(barDefinition.fill, theme), theme.bg];
  const fill =
    barDefinition.alpha === undefined
      ? plainColor
      : interpolateStops([background, plainColor], barDefinition.alpha);
  return {
    fill,
    outline:
      barDefinition.outlined === true
        ? fill
        : barDefinition.line && resolveColor(barDefinition.line, theme),
    hatch: barDefinition.hatch,
    hatchColor: barDefinition.hatch_ink && resolveColor(barDefinition.hatch_ink, theme),
  };
}

interface StackContent {
  marks: ChartMark[];
  barTexts(): BarText[];
  legend: [style: MarkStyle, text: string][];
  summary: string;
  endTimes: Float64Array;
  lines(row: number): TooltipLineTemplate[];
}

/** Adds the columns of stacked bars. */
function buildStack(
  definition: Definition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
  theme: Theme,
): StackContent {
  const { stack } = definition;
  const rows = (scope.get("names") as string[]).length;
  let left = new Float64Array(rows);
  if (stack === undefined)
    return {
      marks: [],
      barTexts: () => [],
      legend: [],
      summary: "",
      endTimes: left,
      lines: () => [],
    };
  if (stack.by !== undefined) return buildStackBy(stack, scope, data, theme);
  const whole = stack.of === undefined ? null : toNumbers(evaluate(stack.of, scope));
  data.row = Float64Array.from(left.keys());
  const parts = stack.parts!.map((part, at) => {
    const ink = BAR_STYLES[part.ink]!;
    const ns = toNumbers(evaluate(part.ns, scope), rows).map((each) => each || 0);
    const size =
      whole === null ? ns : ns.map((each, row) => (whole[row]! > 0 ? each / whole[row]! : 0));
    const [start, end] = [left, left.map((each, row) => each + size[row]!)];
    // A zero-width bar would still draw its outline.
    const visibleEdges = (edges: Float64Array): Float64Array =>
      ink.line === undefined ? edges : edges.map((each, row) => (size[row]! > 0 ? each : NaN));
    data[`left_${at}`] = visibleEdges(start);
    data[`right_${at}`] = visibleEdges(end);
    const inside = (): BarText[] => {
      if (whole === null || ink.on === undefined) return [];
      const color = resolveColor(ink.on, theme);
      const plate = ink.hatch === undefined ? undefined : resolveColor(ink.fill, theme);
      return Array.from(indicesOfTrue(size), (row) => ({
        ...{ row, left: start[row]!, right: end[row]!, color, plate },
        ...{ text: formatShare(size[row]!), isAtEnd: part.at_end === true },
      }));
    };
    left = end;
    const style = barStyle(part.ink, theme);
    const mark: ChartMark = {
      shape: "bar",
      left: `left_${at}`,
      right: `right_${at}`,
      style: () => style,
    };
    return { mark, style, name: String(fillTemplate(part.name, scope)), ns, size, inside };
  });
  const shownParts = parts.filter(({ ns }) => ns.some((each) => each > 0));
  const all = Math.max(sum(whole ?? []), 1);
  return {
    marks: shownParts.map(({ mark }) => mark),
    barTexts: () => parts.flatMap(({ inside }) => inside()),
    legend: shownParts.map(({ style, name }) => [style, name]),
    summary: shownParts.map(({ name, ns }) => `${name} ${formatShare(sum(ns) / all)}`).join(", "),
    endTimes: left,
    lines: (row) =>
      shownParts.map(({ name, ns, size }) => [
        name,
        `${formatDuration(ns[row]!)} · ${formatShare(size[row]!)}`,
      ]),
  };
}

/** Adds the columns of bars whose parts are items of the frame. */
function buildStackBy(
  stack: StackDefinition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
  theme: Theme,
): StackContent {
  const by = scope.get(stack.by!) as string[];
  const row = scope.get("row") as Float64Array;
  const size = toNumbers(evaluate(stack.value!, scope)).map((each) => Math.max(each, 0) || 0);
  const share = scope.get(stack.share!) as Float64Array;
  const endTimes = new Float64Array((scope.get("names") as string[]).length);
  const [left, right] = [size.slice(), size.slice()];
  size.forEach((each, at) => {
    const from = endTimes[row[at]!]!;
    const to = (endTimes[row[at]!] = from + each);
    // A zero-width bar would still draw its outline.
    [left[at], right[at]] = each > 0 ? [from, to] : [NaN, NaN];
  });
  const barTexts = (): BarText[] =>
    Array.from(indicesOfTrue(share)).flatMap((at) => {
      const on = BAR_STYLES[by[at]!]?.on;
      if (on === undefined || !(share[at]! > 0)) return [];
      const edges = { row: row[at]!, left: left[at]!, right: right[at]! };
      return [{ ...edges, text: formatShare(share[at]!), color: resolveColor(on, theme) }];
    });
  Object.assign(data, { left, right, [stack.by!]: by });
  const sums = new Map<string, number>();
  size.forEach((each, at) => sums.set(by[at]!, (sums.get(by[at]!) ?? 0) + each));
  const shownParts = CAUSES.flatMap((name) => {
    const of = sums.get(name) ?? 0;
    return of > 0 ? [{ name, style: barStyle(name, theme), words: causeLabel(name), of }] : [];
  });
  const styles = new Map<string, MarkStyle>(shownParts.map(({ name, style }) => [name, style]));
  const text = makeFiller(stack.text!, scope);
  return {
    marks: [{ shape: "bar", left: "left", right: "right", style: (at) => styles.get(by[at]!) }],
    barTexts,
    legend: shownParts.map(({ style, words }) => [style, words]),
    summary: shownParts
      .map(({ words, of }) => `${words} ${formatShare(of / sum(size))}`)
      .join(", "),
    endTimes,
    lines: (at) =>
      by.flatMap((name, each): TooltipLineTemplate[] =>
        row[each] === at && size[each]! > 0 ? [[causeLabel(name), text.at(each)]] : [],
      ),
  };
}

/** The mark to paint from the columns that a definition names. */
function buildMark(
  mark: MarkDefinition,
  data: Record<string, ColumnData>,
  theme: Theme,
): ChartMark {
  const shape = mark.bar !== undefined ? "bar" : mark.line !== undefined ? "line" : "dot";
  const [left, right] = mark.bar ?? mark.line ?? [mark.dot!, mark.dot!];
  const { ink: token, hatch, hatch_ink, size, marker, angle } = mark;
  const column = (name: string): readonly string[] => data[name] as string[];
  const isComputed = token.startsWith("@");
  const plain = isComputed
    ? undefined
    : token in BAR_STYLES
      ? barStyle(token, theme)
      : { fill: resolveColor(token, theme) };
  return {
    shape,
    left,
    right: String(right),
    size,
    marker,
    angle,
    style: (at) => {
      if (plain !== undefined) return plain;
      const fill = column(token.slice(1))[at]!;
      if (hatch === undefined) return { fill };
      const hatchColor = column(hatch_ink!.slice(1))[at]!;
      return { fill, hatch: column(hatch)[at]!, hatchColor, lineWidth: 3, scale: 8 };
    },
  };
}

/** Adds the columns that a mark names, colours by their tokens; returns the texts in its bars. */
function addMarkColumns(
  mark: MarkDefinition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
  theme: Theme,
): () => BarText[] {
  const row = scope.get("row") as Float64Array;
  const edges = mark.bar ?? mark.line ?? [mark.dot!];
  for (const code of [...edges, mark.size, mark.marker, mark.angle, mark.hatch]) {
    if (typeof code === "string") data[code] = toColumn(evaluate(code, scope), row.length);
  }
  const colors = new Map<string, string>();
  const color = (token: string): string =>
    getOrMake(colors, token, () => resolveColor(token, theme));
  for (const token of [mark.ink, mark.hatch_ink]) {
    if (token?.startsWith("@") !== true) continue;
    const tokens = toColumn(evaluate(token.slice(1), scope), row.length) as string[];
    data[token.slice(1)] = tokens.map(color);
  }
  const { inside: barTexts } = mark;
  if (barTexts === undefined) return () => [];
  const [left, right] = edges.map((code) => toNumbers(evaluate(code, scope), row.length));
  const fills = data[mark.ink.slice(1)] as string[];
  return () =>
    (fillTemplate(barTexts, scope) as string[]).flatMap((text, at) => {
      const edges = { row: row[at]!, left: left![at]!, right: right![at]! };
      return text === ""
        ? []
        : [{ ...edges, text, color: textOn(fills[at]!), isTruncatable: true }];
    });
}

function buildTicks(
  definitions: readonly (TickDefinition | TickPlaces)[],
  scope: EvaluationScope,
): [at: number, text: string][] {
  const ticks = filterByCondition(definitions, scope)[0];
  if (ticks === undefined) return [];
  if ("at" in ticks) {
    const [at, where] = [ticks.at, ticks.where].map((code) => toNumbers(evaluate(code, scope)));
    const { at: text } = makeFiller(ticks.text, scope);
    return Array.from(indicesOfTrue(where!)).map((each) => [at![each]!, text(each)]);
  }
  const [to, from, max] = [ticks.to, ticks.from ?? 0, ticks.most].map((code) =>
    toNumber(evaluate(code, scope)),
  ) as [number, number, number];
  const all = niceTicks(to, max, from);
  const step = all.length > 1 ? all[1]! - all[0]! : Math.max(to, 1);
  const labels = (at: number): string => {
    if (at === 0 && ticks.zero !== undefined) return ticks.zero;
    if (ticks.as === "share_delta") return formatShareDelta(at);
    if (ticks.as === "count") return formatCount(at);
    return `${ticks.as === "duration_delta" && at > 0 ? "+" : ""}${formatAxis(at, step)}`;
  };
  return all
    .filter((at) => ticks.as !== "count" || Number.isInteger(at))
    .map((at) => [at, labels(at)]);
}

function buildEndTexts(
  { at }: { at: string },
  texts: readonly string[],
  scope: EvaluationScope,
): NonNullable<RowsContent["endTexts"]> {
  const ends = toNumbers(evaluate(at, scope));
  const highest = scope.get("fold_high") as Float64Array | undefined;
  // Texts start after the line that shows the spread of ranks that share a row.
  return texts.map((text, row) => ({ row, at: Math.max(ends[row]!, highest?.[row] || 0), text }));
}

/** Tooltips and selections of marks that differ from their row's. */
function markInteraction(
  definition: Definition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
  order: Int32Array | null,
): Pick<RowsContent, "hitTest" | "keysWithin" | "windows" | "selectedMarks"> {
  const mark = definition.marks?.find(({ tip }) => tip !== undefined);
  if (mark?.tip === undefined) return {};
  const { selects } = definition.rows;
  const row = data.row as Float64Array;
  const items = order ?? Int32Array.from(row.keys());
  const [from, to] = (mark.bar ?? [mark.dot!, mark.dot!]).map((end) => data[end]) as [
    Float64Array,
    Float64Array,
  ];
  const tooltipOf = tooltipFiller(mark.tip, scope);
  const { keys, window } = mark.selects ?? {};
  const key =
    keys === undefined
      ? null
      : Array.from(
          toColumn(evaluate(keys, scope), row.length),
          (own) => [own].flat() as SelectionKey[],
        );
  const [start, end] = (window ?? []).map((code) => toNumbers(evaluate(code, scope)));
  const hitOf = (at: number): MarkHit | null => {
    const item = items[at];
    if (item === undefined) return null;
    return {
      tooltip: tooltipOf(item),
      keys: key === null ? null : key[item]!,
      window: start === undefined ? null : [start[item]!, end![item]!],
    };
  };
  return {
    windows: window !== undefined,
    hitTest: (x, y, reachX, reachY) => {
      let [best, distance] = [-1, 1];
      from.forEach((left, at) => {
        const aside = Math.max(left - x, x - to[at]!, 0) / reachX;
        const above = Math.abs(row[at]! - y);
        // A bar is hit over the whole height of its row.
        const inRow = above <= 0.5 ? aside : Infinity;
        const distanceShare = mark.bar === undefined ? Math.hypot(aside, above / reachY) : inRow;
        if (distanceShare <= distance) [best, distance] = [at, distanceShare];
      });
      return hitOf(best);
    },
    keysWithin: key === null ? undefined : keysIn,
    selectedMarks: mark.selects && chosenOf,
  };
  function keysIn(x0: number, x1: number, y0: number, y1: number): SelectionKey[] {
    const met = items.filter(
      (_, at) => from[at]! >= x0 && from[at]! <= x1 && row[at]! >= y0 && row[at]! <= y1,
    );
    const keys = [...new Set(Array.from(met).flatMap((item) => key![item]!))];
    return keys.every((one) => typeof one === "number") ? keys.sort((a, b) => a - b) : keys;
  }

  function chosenOf(selected: ChartSelection): number[] | null {
    const of =
      key === null || selects === "window" ? null : (selected[selects] as SelectionKey[] | null);
    const requested = of === null ? null : new Set(of);
    const within = start === undefined ? null : selected.window;
    if (requested === null && within === null) return null;
    const [low, high] = within ?? [-Infinity, Infinity];
    return Array.from(items.keys()).filter((at) => {
      const item = items[at]!;
      const inside = within === null || (start![item]! < high && end![item]! > low);
      return (
        inside &&
        (requested === null || key![item]!.every((selectedKey) => requested.has(selectedKey)))
      );
    });
  }
}
