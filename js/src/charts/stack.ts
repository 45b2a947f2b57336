/** Stacked bars of chart definitions, which show shares, times, or one part per item. */

import causes from "../../../hta_widgets/facts/causes.json";
import { allIndices, indicesWhere, sum } from "../expressions/numbers";
import { type Cause, CAUSES } from "../facts/panels";
import { formatDuration, formatShare } from "../ui/formats";
import type { Theme } from "../ui/theme";
import { barStyle, resolveColor } from "./colors";
import type { BarText, ChartMark } from "./content";
import {
  BAR_STYLES,
  type Definition,
  type ItemStackDefinition,
  type PartStackDefinition,
  type TooltipLineTemplate,
} from "./definition";
import {
  type ColumnData,
  type EvaluationScope,
  evaluate,
  fillTemplate,
  indicesOfTrue,
  makeFiller,
  toNumbers,
} from "./language";
import type { MarkStyle } from "./paint";

/** Return the display name of a cause, such as `host: data loading`. */
export function causeLabel(name: string): string {
  return name in causes ? causes[name as Cause].label : name.replaceAll("_", " ");
}

export interface StackContent {
  marks: ChartMark[];
  barTexts(): BarText[];
  legend: [style: MarkStyle, text: string][];
  summary: string;
  endTimes: Float64Array;
  lines(row: number): TooltipLineTemplate[];
}

/** Add the bars' columns to `data`, and `ends` and `parts` to the scope. Return the stack. */
export function buildStack(
  { stack }: Definition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
  theme: Theme,
): StackContent {
  let content: StackContent = {
    marks: [],
    barTexts: () => [],
    legend: [],
    summary: "",
    endTimes: new Float64Array((scope.get("names") as string[]).length),
    lines: () => [],
  };
  if (stack?.type === "items") content = buildItemStack(stack, scope, data, theme);
  if (stack?.type === "parts") content = buildPartStack(stack, scope, data, theme);
  scope.set("ends", content.endTimes).set("parts", content.summary);
  return content;
}

/** Return 0 for unknown times and rounding errors, as differences of means are not exactly 0. */
function withoutRoundingError(timeNs: number): number {
  return Math.abs(timeNs) >= 1e-3 ? timeNs : 0;
}

/** Return parts as text: `compute 71 %, communication 29 %`. */
function sharesText(parts: readonly [name: string, time: number][], total: number): string {
  return parts.map(([name, time]) => `${name} ${formatShare(time / total)}`).join(", ");
}

/** Return the texts in a part's bars. The bars' sizes are shares of their row's total. */
function shareTexts(
  { color: styleName, align_end }: PartStackDefinition["parts"][number],
  { left, right, size }: Record<"left" | "right" | "size", Float64Array>,
  theme: Theme,
): BarText[] {
  const { on, fill, hatch } = BAR_STYLES[styleName]!;
  if (on === undefined) return [];
  const color = resolveColor(on, theme);
  const plate = hatch === undefined ? undefined : resolveColor(fill, theme);
  const isAtEnd = align_end === true;
  return Array.from(indicesOfTrue(size), (row): BarText => {
    const text = formatShare(size[row]!);
    return { row, left: left[row]!, right: right[row]!, text, color, plate, isAtEnd };
  });
}

/** Add the columns of bars whose parts are the same in every row. */
function buildPartStack(
  stack: PartStackDefinition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
  theme: Theme,
): StackContent {
  const rows = (scope.get("names") as string[]).length;
  const totals = stack.of === undefined ? null : toNumbers(evaluate(stack.of, scope));
  data.row = Float64Array.from(allIndices(rows));
  let endTimes = new Float64Array(rows);
  const parts = stack.parts.map((part, index) => {
    const ns = toNumbers(evaluate(part.ns, scope), rows).map(withoutRoundingError);
    const size =
      totals === null ? ns : ns.map((time, row) => (totals[row]! > 0 ? time / totals[row]! : 0));
    const left = endTimes;
    const right = left.map((edge, row) => edge + size[row]!);
    endTimes = right;
    // A bar of zero width would still have a visible outline.
    const visibleEdges = (edges: Float64Array): Float64Array =>
      BAR_STYLES[part.color]!.line === undefined
        ? edges
        : edges.map((edge, row) => (size[row]! > 0 ? edge : NaN));
    const edgeColumns = { left: `left_${index}`, right: `right_${index}` };
    data[edgeColumns.left] = visibleEdges(left);
    data[edgeColumns.right] = visibleEdges(right);
    const style = barStyle(part.color, theme);
    const mark: ChartMark = { shape: "bar", ...edgeColumns, style: () => style };
    const barTexts = () => (totals === null ? [] : shareTexts(part, { left, right, size }, theme));
    return { mark, style, name: String(fillTemplate(part.name, scope)), ns, size, barTexts };
  });
  const shownParts = parts.filter(({ ns }) => ns.some((time) => time > 0));
  return {
    marks: shownParts.map(({ mark }) => mark),
    barTexts: () => parts.flatMap((part) => part.barTexts()),
    legend: shownParts.map(({ style, name }) => [style, name]),
    summary: sharesText(
      shownParts.map(({ name, ns }) => [name, sum(ns)]),
      Math.max(sum(totals ?? []), 1),
    ),
    endTimes,
    lines: (row) =>
      shownParts.map(({ name, ns, size }) => [
        name,
        `${formatDuration(ns[row]!)} · ${formatShare(size[row]!)}`,
      ]),
  };
}

/** Add the columns of bars whose parts are items of the frame. */
function buildItemStack(
  stack: ItemStackDefinition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
  theme: Theme,
): StackContent {
  const causeOfItem = scope.get(stack.by) as string[];
  const rowOfItem = scope.get("row") as Float64Array;
  // Unknown and negative times have no bar.
  const times = toNumbers(evaluate(stack.value, scope)).map((time) => Math.max(time, 0) || 0);
  const share = scope.get(stack.share) as Float64Array;
  const endTimes = new Float64Array((scope.get("names") as string[]).length);
  // A bar of zero width would still have a visible outline.
  const [left, right] = [times.map(() => NaN), times.map(() => NaN)];
  const sums = new Map<string, number>();
  for (const item of indicesOfTrue(times)) {
    const [row, cause, time] = [rowOfItem[item]!, causeOfItem[item]!, times[item]!];
    left[item] = endTimes[row]!;
    endTimes[row]! += time;
    right[item] = endTimes[row]!;
    sums.set(cause, (sums.get(cause) ?? 0) + time);
  }
  Object.assign(data, { left, right, [stack.by]: causeOfItem });
  const barTexts = (): BarText[] =>
    Array.from(indicesWhere(share.length, (item) => share[item]! > 0)).flatMap((item) => {
      const on = BAR_STYLES[causeOfItem[item]!]?.on;
      if (on === undefined) return [];
      const edges = { row: rowOfItem[item]!, left: left[item]!, right: right[item]! };
      return [{ ...edges, text: formatShare(share[item]!), color: resolveColor(on, theme) }];
    });
  const shownCauses = CAUSES.filter((cause) => sums.has(cause));
  const styles = new Map<string, MarkStyle>(
    shownCauses.map((cause) => [cause, barStyle(cause, theme)]),
  );
  const text = makeFiller(stack.text, scope);
  const style: ChartMark["style"] = (item) => styles.get(causeOfItem[item]!);
  return {
    marks: [{ shape: "bar", left: "left", right: "right", style }],
    barTexts,
    legend: shownCauses.map((cause) => [styles.get(cause)!, causeLabel(cause)]),
    summary: sharesText(
      shownCauses.map((cause) => [causeLabel(cause), sums.get(cause)!]),
      sum(times),
    ),
    endTimes,
    lines: (row) =>
      causeOfItem.flatMap((cause, item): TooltipLineTemplate[] =>
        rowOfItem[item] === row && times[item]! > 0 ? [[causeLabel(cause), text.at(item)]] : [],
      ),
  };
}
