/** Build chart contents from definitions, which `charts/defined.py` turns into Bokeh figures. */

import { allIndices, indicesWhere } from "../expressions/numbers";
import { noteFor } from "../facts/notes";
import { getOrMake } from "../protocol/maps";
import type { ChartSelection, PanelFrame } from "../protocol/source";
import { formatAxis, formatCount, formatShareDelta } from "../ui/formats";
import { emptyPanelText, joinSentences, niceTicks, unmatchedText } from "../ui/text";
import { textOn, type Theme } from "../ui/theme";
import { barStyle, colorColumn, itemColors, resolveColor } from "./colors";
import {
  factRanks,
  type BarText,
  type ChartPoint,
  type SelectionKey,
  lateRanks,
  type ChartMark,
  markedRows,
  type RowsContent,
  type SideColumn,
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
  type BarMark,
  type Code,
  type Definition,
  type TooltipLineTemplate,
  type MarkDefinition,
  type PlacedTicks,
  type ConditionalText,
  type ItemColor,
  type RoundTicks,
  type TooltipTemplate,
  type Conditional,
} from "./definition";
import {
  foldedFrame,
  foldedLines,
  foldedSubtitle,
  foldItems,
  type FoldRule,
  type GroupOfRank,
  foldGroups,
  addMemberColumns,
} from "./folding";
import type { MarkStyle } from "./paint";
import { buildStack, type StackContent } from "./stack";

/** Return the content for a frame, or the reason why there is nothing to show. */
export function buildRowsContent(
  definition: Definition,
  frame: PanelFrame,
  theme: Theme,
): RowsContent | string {
  // Texts and scales are computed from all ranks, even if similar ranks share a row.
  const frameScope = buildScope(definition, frame);
  const reason = emptyReason(definition, frameScope);
  if (reason !== null) return emptyPanelText(frame, reason);
  // Those texts use `ends` and `parts`, which `buildStack` adds to the scope.
  buildStack(definition, frameScope, {}, theme);
  const scope = buildFoldedScope(definition, frame, frameScope);
  const fold = scope === frameScope ? undefined : definition.fold;
  const data: Record<string, ColumnData> = { row: scope.get("row") as Float64Array };
  const stack = buildStack(definition, scope, data, theme);
  const { marks = [], rows } = definition;
  const definedMarks = marks.map((mark) => addMark(mark, scope, data, theme));
  const spread = fold === undefined ? [] : [addSpread(definition, scope, data, theme)];
  if (definition.place !== undefined) data.row = toNumbers(evaluate(definition.place, scope));
  const order = sortItems(definition, scope, data);
  const valueMarks = [...stack.marks, ...definedMarks.map(({ mark }) => mark)];
  const headTexts = chartTexts(definition, frame, frameScope);
  const foldedText = fold === undefined ? "" : foldedSubtitle(fold);
  return {
    ...headTexts,
    subtitle: joinSentences(headTexts.subtitle, foldedText),
    ...rowLabels(definition, frame, scope),
    ...scaleContent(definition.scale, frameScope),
    rowPitchPx: rows.pitch === undefined ? undefined : toNumber(evaluate(rows.pitch, frameScope)),
    data,
    // The min-max line is drawn above bars and below dots.
    marks: hasRankRows(definition) ? [...valueMarks, ...spread] : [...spread, ...valueMarks],
    barTexts: () => [...stack.barTexts(), ...definedMarks.flatMap(({ barTexts }) => barTexts())],
    legend: [...stack.legend, ...legendOf(marks, theme)],
    tooltip: rowTooltip(definition, scope, stack.lines, fold),
    table: fold && foldedFrame(scope, fold, frame),
    ...markInteraction(definition, scope, data, order),
  };
}

/** Return the rows' names and keys, and the texts to their right. */
function rowLabels(definition: Definition, frame: PanelFrame, scope: EvaluationScope) {
  const { rows } = definition;
  const names = scope.get("names") as string[];
  const keys = rows.keys.map((code) => rowColumn(code, scope) as (SelectionKey | SelectionKey[])[]);
  const flaggedRows =
    rows.rank === undefined ? undefined : markedRows(frame, toNumbers(evaluate(rows.rank, scope)));
  return {
    names,
    keys: names.map((_, row) => keys.flatMap((column) => column[row]!)),
    lateRows: rowsWhere(rows.late_rows, scope) ?? flaggedRows?.lateRows,
    factRows: flaggedRows?.factRows,
    hasRules: rows.rules,
    head: rows.head ?? "",
    columns: buildSideColumns(definition, scope),
    secondLines: rows.second && rowTexts(rows.second.text, scope),
    endTexts: rows.ends && buildEndTexts(rows.ends, scope),
  };
}

function scaleContent(scale: Definition["scale"], scope: EvaluationScope) {
  const numberOf = (code: Code): number => toNumber(evaluate(code, scope));
  const [ticks] = filterByCondition(scale.ticks ?? [], scope);
  return {
    xStart: numberOf(scale.from ?? 0),
    xEnd: numberOf(scale.to) || 1,
    ticks: buildTicks(ticks, scope),
    hasRoundTicks: ticks?.type === "round",
    zeroLine: Boolean(evaluate(scale.zero_line ?? 0, scope)),
  };
}

/** Return a function for a row's tooltip. With a `fold`, a row's tooltip also lists its ranks. */
function rowTooltip(
  definition: Definition,
  scope: EvaluationScope,
  stackLines: StackContent["lines"],
  fold: FoldRule | undefined,
): (row: number) => TooltipContent {
  const tooltip = tooltipFiller(definition.tooltip, scope, stackLines);
  if (fold === undefined || !hasRankRows(definition)) return tooltip;
  const firstItems = firstItemOfRows(scope.get("row") as Float64Array);
  return (row) => {
    const { heading, lines } = tooltip(row);
    return { heading, lines: [...lines, ...foldedLines(scope, fold, firstItems[row]!)] };
  };
}

function rowColumn(code: string, scope: EvaluationScope): ColumnData {
  return toColumn(evaluate(code, scope), (scope.get("names") as string[]).length);
}

function rowTexts(template: string, scope: EvaluationScope): readonly string[] {
  const { length } = scope.get("names") as string[];
  return toColumn(fillTemplate(template, scope), length) as string[];
}

/** Return the rows for which an expression is true; undefined if there is no expression. */
function rowsWhere(code: string | undefined, scope: EvaluationScope): Set<number> | undefined {
  return code === undefined ? undefined : new Set(indicesOfTrue(rowColumn(code, scope)));
}

function buildSideColumns(definition: Definition, scope: EvaluationScope): SideColumn[] {
  return filterByCondition(definition.columns ?? [], scope).map(
    ({ head = "", text, min_width, late_rows, bold_rows }) => ({
      head,
      texts: rowTexts(text, scope),
      minWidthPx: min_width,
      lateRows: rowsWhere(late_rows, scope),
      boldRows: rowsWhere(bold_rows, scope),
    }),
  );
}

/** Return why there is nothing to show; null if there is something. */
function emptyReason({ empty }: Definition, scope: EvaluationScope): string | null {
  if (!scope.has("row")) return noteFor("nothing");
  return empty !== undefined && evaluate(empty.when, scope) ? empty.text : null;
}

function legendOf(marks: readonly MarkDefinition[], theme: Theme): [MarkStyle, string][] {
  return marks.flatMap((mark): [MarkStyle, string][] =>
    mark.shape === "bar" && mark.name !== undefined && typeof mark.color === "string"
      ? [[barStyle(mark.color, theme), mark.name]]
      : [],
  );
}

/** Sort the columns of `data` and return the order; null if the definition has none. */
function sortItems(
  { order: code }: Definition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
): Int32Array | null {
  if (code === undefined) return null;
  const order = sortedOrder([evaluate(code, scope) as ColumnData]);
  for (const [name, values] of Object.entries(data)) data[name] = takeRows(values, order);
  return order;
}

/** The line from minimum to maximum of the ranks that share a row or mark. */
const SPREAD_MARK: MarkDefinition = {
  shape: "line",
  left: "fold_low",
  right: "fold_high",
  color: "ink",
};

function firstItemOfRows(row: Float64Array): number[] {
  const firstItems: number[] = [];
  row.forEach((rowNumber, item) => (firstItems[rowNumber] ??= item));
  return firstItems;
}

/** Add the columns of `SPREAD_MARK` and return that mark. Each row has one line: NaN hides others. */
function addSpread(
  definition: Definition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
  theme: Theme,
): ChartMark {
  const row = scope.get("row") as Float64Array;
  const hasLine = new Set(hasRankRows(definition) ? firstItemOfRows(row) : row.keys());
  for (const name of ["fold_low", "fold_high"]) {
    const edgeValues = scope.get(name) as Float64Array;
    data[name] = edgeValues.map((edge, item) => (hasLine.has(item) ? edge : NaN));
  }
  return buildMark(SPREAD_MARK, data, theme);
}

/** Return the texts above a chart. The subtitle may repeat the finding. */
export function chartTexts(
  definition: Definition,
  frame: PanelFrame,
  scope: EvaluationScope,
): Pick<RowsContent, "title" | "subtitle" | "finding"> {
  const fillAll = (templates: readonly (string | ConditionalText)[]): string =>
    joinSentences(
      ...filterByCondition(templates, scope).map((template) =>
        String(fillTemplate(typeof template === "string" ? template : template.text, scope)),
      ),
    );
  const finding = fillAll(definition.finding);
  scope.set("finding", finding);
  return {
    title: String(fillTemplate(definition.title, scope)),
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
  return conditionals.filter((conditional) => {
    const when =
      typeof conditional === "object" && "when" in conditional ? conditional.when : undefined;
    return when === undefined || Boolean(evaluate(when, scope));
  });
}

/** Return a function that fills in the tooltip of a row. */
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

/** Return whether each row is a rank. Otherwise, a row contains marks of several ranks. */
const hasRankRows = ({ rows }: Definition): boolean =>
  rows.rank !== undefined && rows.selects === "ranks";

/** Return the scope to draw, with each group of ranks in the attribute `folded` combined. */
export function buildFoldedScope(
  definition: Definition,
  frame: PanelFrame,
  frameScope: EvaluationScope,
): EvaluationScope {
  const groups = definition.fold === undefined ? NO_GROUPS : foldGroups(frame);
  if (groups.size === 0) return frameScope;
  if (hasRankRows(definition)) return buildScope(definition, frame, groups);
  const scope = new Map(frameScope);
  foldItems(scope, definition.fold!, groups, [frameScope.get("row") as ColumnData]);
  return scope;
}

/** Return the word for devices: the job's word if set, otherwise the frame's. */
export function deviceWord({ attrs }: Definition, frame: PanelFrame): string {
  return (attrs?.device_word ?? frame.attrs.device_word ?? "GPU") as string;
}

/** Return the values that the texts and marks of a definition may refer to. */
export function buildScope(
  definition: Definition,
  frame: PanelFrame,
  groups: GroupOfRank = NO_GROUPS,
): EvaluationScope {
  const scope: EvaluationScope = new Map<string, ScopeValue>([
    ["nan", NaN],
    ["device_word", deviceWord(definition, frame)],
    ["late_ranks", new Set(lateRanks(frame))],
    ["fact_ranks", new Set(factRanks(frame))],
  ]);
  for (const [name, defaultValue] of Object.entries(definition.attrs ?? {})) {
    scope.set(name, (frame.attrs[name] ?? defaultValue ?? NaN) as ScalarValue);
  }
  for (const name of [...definition.needs, ...(definition.uses ?? [])]) {
    scope.set(name, columnFromFrame(frame.columns[name] ?? new Array<null>(frame.rows).fill(null)));
  }
  if (selectItems(definition, scope, frame.rows) === 0) return scope;
  if (groups.size > 0) foldItems(scope, definition.fold!, groups);
  else if (definition.fold !== undefined) {
    const ranks = scope.get("rank") as Float64Array;
    addMemberColumns(
      scope,
      Array.from(ranks, (rank) => [rank]),
    );
  }
  const items = (scope.get(definition.needs[0]!) as ColumnData).length;
  const groupColumns = definition.group?.map((name) => toColumn(scope.get(name)!, items));
  scope.set(
    "row",
    groupColumns ? combineCodes(groupColumns) : Float64Array.from(allIndices(items)),
  );
  addValues(scope, definition.let);
  return scope.set("names", fillTemplate(definition.rows.name, scope));
}

/** Evaluate named expressions. Each may refer to the ones before it. */
function addValues(scope: EvaluationScope, codes: Readonly<Record<string, string>> = {}): void {
  for (const [name, code] of Object.entries(codes)) scope.set(name, evaluate(code, scope));
}

/** Sort and filter the items as `from` specifies. Return the number of remaining items. */
function selectItems({ from }: Definition, scope: EvaluationScope, items: number): number {
  if (from === undefined || items === 0) return items;
  addValues(scope, from.let);
  const sortColumns = from.sort?.map((code) => evaluate(code, scope) as ColumnData);
  let order = sortColumns === undefined ? allIndices(items) : sortedOrder(sortColumns);
  if (from.keep !== undefined) {
    const isKept = toColumn(evaluate(from.keep, scope), items);
    order = order.filter((item) => Boolean(isKept[item]));
  }
  for (const [name, value] of scope) if (isColumn(value)) scope.set(name, takeRows(value, order));
  return order.length;
}

function buildMark(
  mark: MarkDefinition,
  data: Record<string, ColumnData>,
  theme: Theme,
): ChartMark {
  const shared = { shape: mark.shape, style: markStyle(mark, data, theme) };
  if (mark.shape !== "dot") return { ...shared, left: mark.left, right: String(mark.right) };
  const { at, size, marker, angle } = mark;
  return { ...shared, left: at, right: at, size, marker, angle };
}

function markStyle(
  mark: MarkDefinition,
  data: Record<string, ColumnData>,
  theme: Theme,
): (item: number) => MarkStyle {
  const { color } = mark;
  if (typeof color === "string") {
    const style =
      mark.shape === "bar" ? barStyle(color, theme) : { fill: resolveColor(color, theme) };
    return () => style;
  }
  const column = (name: string): readonly string[] => data[name] as string[];
  const fills = colorColumn(color);
  const hatch = mark.shape === "bar" ? mark.hatch : undefined;
  if (hatch === undefined) return (item) => ({ fill: column(fills)[item]! });
  return (item) => ({
    fill: column(fills)[item]!,
    hatch: column(hatch.pattern)[item]!,
    hatchColor: column(colorColumn(hatch.color))[item]!,
    lineWidth: 3,
    scale: 8,
  });
}

function markEnds(mark: MarkDefinition): readonly [Code, Code] {
  return mark.shape === "dot" ? [mark.at, mark.at] : [mark.left, mark.right];
}

/** Add a mark's columns to `data`. Return the mark and a function that returns its bars' texts. */
function addMark(
  mark: MarkDefinition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
  theme: Theme,
): { mark: ChartMark; barTexts(): BarText[] } {
  const row = scope.get("row") as Float64Array;
  const addColumn = (code: Code | undefined): void => {
    if (typeof code === "string") data[code] = toColumn(evaluate(code, scope), row.length);
  };
  const addColors = (color: string | ItemColor): void => {
    if (typeof color !== "string")
      data[colorColumn(color)] = itemColors(color, scope, row.length, theme);
  };
  markEnds(mark).forEach(addColumn);
  addColors(mark.color);
  if (mark.shape === "dot") [mark.size, mark.marker, mark.angle].forEach(addColumn);
  if (mark.shape === "bar" && mark.hatch !== undefined) {
    addColumn(mark.hatch.pattern);
    addColors(mark.hatch.color);
  }
  const barTexts = mark.shape === "bar" ? barTextsOf(mark, scope, data) : () => [];
  return { mark: buildMark(mark, data, theme), barTexts };
}

/** Return a function that returns the texts in a mark's bars. `data` holds the mark's columns. */
function barTextsOf(
  mark: BarMark,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
): () => BarText[] {
  const { bar_text: barText, color } = mark;
  if (barText === undefined || typeof color === "string") return () => [];
  const row = scope.get("row") as Float64Array;
  const [left, right] = markEnds(mark).map((code) => toNumbers(evaluate(code, scope), row.length));
  const fills = data[colorColumn(color)] as string[];
  return () =>
    (fillTemplate(barText, scope) as string[]).flatMap((text, index) => {
      const edges = { row: row[index]!, left: left![index]!, right: right![index]! };
      return text === ""
        ? []
        : [{ ...edges, text, color: textOn(fills[index]!), isTruncatable: true }];
    });
}

type Tick = [at: number, text: string];

function buildTicks(ticks: RoundTicks | PlacedTicks | undefined, scope: EvaluationScope): Tick[] {
  if (ticks === undefined) return [];
  return ticks.type === "places" ? placedTicks(ticks, scope) : roundTicks(ticks, scope);
}

function placedTicks({ at, where, text }: PlacedTicks, scope: EvaluationScope): Tick[] {
  const positions = toNumbers(evaluate(at, scope));
  const shownItems = indicesOfTrue(toNumbers(evaluate(where, scope)));
  const label = makeFiller(text, scope);
  return Array.from(shownItems, (item) => [positions[item]!, label.at(item)]);
}

function roundTicks(
  { format, to, from = 0, max_ticks, zero }: RoundTicks,
  scope: EvaluationScope,
): Tick[] {
  const numberOf = (code: Code): number => toNumber(evaluate(code, scope));
  const values = niceTicks(numberOf(to), numberOf(max_ticks), numberOf(from));
  const step = values.length > 1 ? values[1]! - values[0]! : Math.max(numberOf(to), 1);
  const labelOf = (value: number): string => {
    if (value === 0 && zero !== undefined) return zero;
    if (format === "share_delta") return formatShareDelta(value);
    if (format === "count") return formatCount(value);
    return `${format === "duration_delta" && value > 0 ? "+" : ""}${formatAxis(value, step)}`;
  };
  return values
    .filter((value) => format !== "count" || Number.isInteger(value))
    .map((value) => [value, labelOf(value)]);
}

function buildEndTexts(
  { at, text: template }: { at: string; text: string },
  scope: EvaluationScope,
): NonNullable<RowsContent["endTexts"]> {
  const ends = toNumbers(evaluate(at, scope));
  const spreadEnds = scope.get("fold_high") as Float64Array | undefined;
  // Texts start to the right of the min-max line, whose end is NaN for rows of a single rank.
  return rowTexts(template, scope).map((text, row) => ({
    row,
    at: Math.max(ends[row]!, spreadEnds?.[row] || 0),
    text,
  }));
}

/** The keys and the window (in ns) that a mark selects. Null if marks do not select any. */
interface MarkSelections {
  keysOf: ((item: number) => SelectionKey[]) | null;
  windowOf: ((item: number) => [number, number]) | null;
}

function markSelections(
  { keys, window }: { keys?: string; window?: readonly [string, string] },
  scope: EvaluationScope,
  count: number,
): MarkSelections {
  const keyColumn = keys === undefined ? null : toColumn(evaluate(keys, scope), count);
  const ends = window?.map((code) => toNumbers(evaluate(code, scope)));
  return {
    keysOf: keyColumn && ((item) => [keyColumn[item]!].flat() as SelectionKey[]),
    windowOf: ends ? (item) => [ends[0]![item]!, ends[1]![item]!] : null,
  };
}

/** Return a function that tests whether a mark is selected; null if all are selected. */
function markFilter(
  { keysOf, windowOf }: MarkSelections,
  selects: Definition["rows"]["selects"],
  selected: ChartSelection,
): ((item: number) => boolean) | null {
  const keys: readonly SelectionKey[] | null =
    keysOf === null || selects === "window" ? null : selected[selects];
  const window = windowOf && selected.window;
  if (keys === null && window === null) return null;
  const selectedKeys = keys && new Set(keys);
  const isInWindow = ([start, end]: [number, number], selectedWindow: readonly [number, number]) =>
    start < selectedWindow[1] && end > selectedWindow[0];
  return (item) =>
    (window === null || isInWindow(windowOf!(item), window)) &&
    (selectedKeys === null || keysOf!(item).every((key) => selectedKeys.has(key)));
}

/** Return a mark's item nearest to a point; -1 if none is in reach. The topmost wins a tie. */
function nearestItem(
  { from, to, row }: Record<"from" | "to" | "row", Float64Array>,
  shape: MarkDefinition["shape"],
  point: ChartPoint,
  reach: ChartPoint,
): number {
  let [nearest, minDistance] = [-1, 1];
  from.forEach((left, item) => {
    const beside = Math.max(left - point.x, point.x - to[item]!, 0) / reach.x;
    const rowsAway = Math.abs(row[item]! - point.y);
    // The pointer hits a bar anywhere within the height of the bar's row.
    const distanceToBar = rowsAway <= 0.5 ? beside : Infinity;
    const distance = shape === "dot" ? Math.hypot(beside, rowsAway / reach.y) : distanceToBar;
    if (distance <= minDistance) [nearest, minDistance] = [item, distance];
  });
  return nearest;
}

/** Return the marks' tooltips and selections, if they differ from those of the rows. */
function markInteraction(
  definition: Definition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
  order: Int32Array | null,
): Pick<RowsContent, "hitTest" | "keysWithin" | "windows" | "selectedMarks"> {
  const mark = definition.marks
    ?.filter((mark) => mark.shape !== "line")
    .find(({ tooltip }) => tooltip !== undefined);
  if (mark?.tooltip === undefined) return {};
  const row = data.row as Float64Array;
  /** `data` is sorted; `items` maps its positions to items of the scope. */
  const items = order ?? allIndices(row.length);
  const [from, to] = markEnds(mark).map((end) => data[end]) as [Float64Array, Float64Array];
  const tooltipOf = tooltipFiller(mark.tooltip, scope);
  const selections = markSelections(mark.selects ?? {}, scope, row.length);
  const { keysOf, windowOf } = selections;
  return {
    windows: windowOf !== null,
    hitTest: (point, reach) => {
      const item = items[nearestItem({ from, to, row }, mark.shape, point, reach)];
      if (item === undefined) return null;
      const [keys, window] = [keysOf?.(item) ?? null, windowOf?.(item) ?? null];
      return { tooltip: tooltipOf(item), keys, window };
    },
    keysWithin: keysOf
      ? (low, high) => {
          const isWithin = (x: number, y: number): boolean =>
            x >= low.x && x <= high.x && y >= low.y && y <= high.y;
          const itemsWithin = items.filter((_, position) =>
            isWithin(from[position]!, row[position]!),
          );
          const keys = [...new Set(Array.from(itemsWithin, keysOf).flat())];
          return keys.every((key) => typeof key === "number") ? keys.sort((a, b) => a - b) : keys;
        }
      : undefined,
    selectedMarks:
      mark.selects &&
      ((selected) => {
        const isSelected = markFilter(selections, definition.rows.selects, selected);
        return isSelected && Array.from(indicesWhere(items.length, (at) => isSelected(items[at]!)));
      }),
  };
}
