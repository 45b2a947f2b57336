/** Stacked bars of chart definitions: shares, times, or one part per item. */

import causes from "../../../hta_widgets/facts/causes.json";
import { sum } from "../expressions/numbers";
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

/** The content of a stack: its marks, texts in bars, legend and tooltip lines. */
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

/** Return 0 for unknown times and for rounding errors: differences of means are not exactly 0. */
function withoutRoundingError(timeNs: number): number {
  return Math.abs(timeNs) >= 1e-3 ? timeNs : 0;
}

/** Add the columns of bars whose parts are the same in each row. */
function buildPartStack(
  stack: PartStackDefinition,
  scope: EvaluationScope,
  data: Record<string, ColumnData>,
  theme: Theme,
): StackContent {
  const rows = (scope.get("names") as string[]).length;
  let left = new Float64Array(rows);
  const totals = stack.of === undefined ? null : toNumbers(evaluate(stack.of, scope));
  data.row = Float64Array.from(left.keys());
  const parts = stack.parts.map((part, index) => {
    const { line, on, fill, hatch } = BAR_STYLES[part.color]!;
    const ns = toNumbers(evaluate(part.ns, scope), rows).map(withoutRoundingError);
    const size =
      totals === null ? ns : ns.map((time, row) => (totals[row]! > 0 ? time / totals[row]! : 0));
    const [start, end] = [left, left.map((edge, row) => edge + size[row]!)];
    left = end;
    // The outline of a bar without width would still be visible.
    const visibleEdges = (edges: Float64Array): Float64Array =>
      line === undefined ? edges : edges.map((edge, row) => (size[row]! > 0 ? edge : NaN));
    data[`left_${index}`] = visibleEdges(start);
    data[`right_${index}`] = visibleEdges(end);
    const barTexts = (): BarText[] => {
      if (totals === null || on === undefined) return [];
      const color = resolveColor(on, theme);
      const plate = hatch === undefined ? undefined : resolveColor(fill, theme);
      const isAtEnd = part.align_end === true;
      return Array.from(indicesOfTrue(size), (row): BarText => {
        const text = formatShare(size[row]!);
        return { row, left: start[row]!, right: end[row]!, text, color, plate, isAtEnd };
      });
    };
    const style = barStyle(part.color, theme);
    const ends = { left: `left_${index}`, right: `right_${index}` };
    const mark: ChartMark = { shape: "bar", ...ends, style: () => style };
    return { mark, style, name: String(fillTemplate(part.name, scope)), ns, size, barTexts };
  });
  const shownParts = parts.filter(({ ns }) => ns.some((time) => time > 0));
  const totalTime = Math.max(sum(totals ?? []), 1);
  return {
    marks: shownParts.map(({ mark }) => mark),
    barTexts: () => parts.flatMap((part) => part.barTexts()),
    legend: shownParts.map(({ style, name }) => [style, name]),
    summary: shownParts
      .map(({ name, ns }) => `${name} ${formatShare(sum(ns) / totalTime)}`)
      .join(", "),
    endTimes: left,
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
  const groupOfItem = scope.get(stack.by) as string[];
  const row = scope.get("row") as Float64Array;
  const size = toNumbers(evaluate(stack.value, scope)).map((time) => Math.max(time, 0) || 0);
  const share = scope.get(stack.share) as Float64Array;
  const endTimes = new Float64Array((scope.get("names") as string[]).length);
  const [left, right] = [size.slice(), size.slice()];
  size.forEach((time, item) => {
    const from = endTimes[row[item]!]!;
    const to = (endTimes[row[item]!] = from + time);
    // The outline of a bar without width would still be visible.
    [left[item], right[item]] = time > 0 ? [from, to] : [NaN, NaN];
  });
  const barTexts = (): BarText[] =>
    Array.from(indicesOfTrue(share)).flatMap((item) => {
      const on = BAR_STYLES[groupOfItem[item]!]?.on;
      if (on === undefined || !(share[item]! > 0)) return [];
      const edges = { row: row[item]!, left: left[item]!, right: right[item]! };
      return [{ ...edges, text: formatShare(share[item]!), color: resolveColor(on, theme) }];
    });
  Object.assign(data, { left, right, [stack.by]: groupOfItem });
  const sums = new Map<string, number>();
  size.forEach((time, item) => {
    const group = groupOfItem[item]!;
    sums.set(group, (sums.get(group) ?? 0) + time);
  });
  const shownParts = CAUSES.flatMap((name) => {
    const time = sums.get(name) ?? 0;
    return time > 0 ? [{ name, style: barStyle(name, theme), label: causeLabel(name), time }] : [];
  });
  const styles = new Map<string, MarkStyle>(shownParts.map(({ name, style }) => [name, style]));
  const text = makeFiller(stack.text, scope);
  const style: ChartMark["style"] = (item) => styles.get(groupOfItem[item]!);
  return {
    marks: [{ shape: "bar", left: "left", right: "right", style }],
    barTexts,
    legend: shownParts.map(({ style, label }) => [style, label]),
    summary: shownParts
      .map(({ label, time }) => `${label} ${formatShare(time / sum(size))}`)
      .join(", "),
    endTimes,
    lines: (itemIndex) =>
      groupOfItem.flatMap((name, item): TooltipLineTemplate[] =>
        row[item] === itemIndex && size[item]! > 0 ? [[causeLabel(name), text.at(item)]] : [],
      ),
  };
}
