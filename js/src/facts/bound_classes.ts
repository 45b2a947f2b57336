/** Event classes by bound (what limits them). Codes follow those of comparisons, as in Python. */

import data from "../../../hta_widgets/facts/bound_classes.json";
import type { ClassPalette, ClassStyle, ThemeName } from "../protocol/source";
import { CLASSES, classStyle } from "./event_classes";

type BoundClass = keyof typeof data.light;

const BOUND_CLASSES = Object.keys(data.light) as BoundClass[];

/** The class of events without known figures. */
export const NO_FIGURE = CLASSES.length + BOUND_CLASSES.indexOf("no_figure");

/** Legend groups in order of importance. */
export const BOUND_GROUPS = data.groups as readonly {
  name: string;
  words: string;
  classes: readonly BoundClass[];
}[];

/**
 * The two most similar colors differ by 9.7 (CIEDE2000) in the light theme and by 9.0 in the dark
 * theme, including for deuteranopes and protanopes (Machado 2009). Estimates are also hatched.
 */
export function boundStyle(name: BoundClass, theme: ThemeName): ClassStyle {
  const hatched = data.hatched.includes(name);
  return { color: data[theme][name], hatched, faint: name === "no_figure" };
}

export const BOUND_PALETTE: ClassPalette = {
  styles: (theme) => [
    ...CLASSES.map((name) => classStyle(name, theme)),
    ...BOUND_CLASSES.map((name) => boundStyle(name, theme)),
  ],
  legend: (theme) =>
    BOUND_GROUPS.map(({ name, classes }) => ({
      name,
      styles: classes.map((boundClass) => boundStyle(boundClass, theme)),
    })),
};
