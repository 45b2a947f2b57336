/** Resolve the color and style names that chart definitions use. */

import { getOrMake } from "../protocol/maps";
import { interpolateStops, type Theme } from "../ui/theme";
import { BAR_STYLES, type ItemColor } from "./definition";
import { type EvaluationScope, evaluate, toColumn, toNumbers } from "./language";
import type { MarkStyle } from "./paint";

/** Return the color with a name such as `late` or `kind.compute`. */
export function resolveColor(token: string, theme: Theme): string {
  const [name, kind] = token.split(".") as [string, string | undefined];
  const color =
    theme[name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()) as "kind" | "ink"];
  if (typeof color === "string") return color;
  return color[kind as keyof Theme["kind"]] ?? color.other;
}

/** Return the name of the column that holds the colors of the items. */
export function colorColumn(color: ItemColor): string {
  return color.type === "column" ? color.tokens : "fill";
}

/** Return the color of each item. */
export function itemColors(
  color: ItemColor,
  scope: EvaluationScope,
  items: number,
  theme: Theme,
): string[] {
  const colorOfName = new Map<string, string>();
  const resolve = (token: string): string =>
    getOrMake(colorOfName, token, () => resolveColor(token, theme));
  const colorsOf = (code: string): string[] =>
    Array.from(toColumn(evaluate(code, scope), items) as string[], resolve);
  if (color.type === "column") return colorsOf(color.tokens);
  const shares = Array.from(toNumbers(evaluate(color.at, scope), items));
  if (color.type === "ramp") {
    const missing = resolve(color.missing ?? "bg");
    const stops = theme[color.ramp];
    return shares.map((share) => (Number.isNaN(share) ? missing : interpolateStops(stops, share)));
  }
  const [starts, ends] = [colorsOf(color.start), colorsOf(color.end)];
  return shares.map((share, item) => interpolateStops([starts[item]!, ends[item]!], share));
}

export function barStyle(name: string, theme: Theme): MarkStyle {
  const {
    fill: fillName,
    alpha = 1,
    line,
    outlined,
    hatch,
    hatch_color: hatchName,
  } = BAR_STYLES[name]!;
  const fullColor = resolveColor(fillName, theme);
  const fill = alpha === 1 ? fullColor : interpolateStops([theme.bg, fullColor], alpha);
  const lineColor = line && resolveColor(line, theme);
  return {
    fill,
    outline: outlined === true ? fill : lineColor,
    hatch,
    hatchColor: hatchName && resolveColor(hatchName, theme),
  };
}
