/** Colors and sizes of both themes, and their CSS variables. */

import tokens from "../../../hta_widgets/facts/tokens.json";
import type { ThemeName } from "../protocol/source";

/**
 * The colors of a theme. Drawing code uses only these. Tests check their contrast.
 *
 * `onKind` is the color of text on a solid mark of a kind. `nameShades` holds three shades per kind
 * for coloring by name; `hostHues` are the hues of host calls. `busy` and `waiting` are ramps from
 * zero to the maximum; `delta` is a ramp from faster to slower.
 */
export type Theme = Readonly<typeof tokens.light> & { readonly name: ThemeName };

export const THEMES: Readonly<Record<ThemeName, Theme>> = {
  light: { name: "light", ...tokens.light },
  dark: { name: "dark", ...tokens.dark },
};

/** Return the color at `share` of the way from the first to the last stop. */
export function interpolateStops(stops: readonly string[], share: number): string {
  const position = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const lower = Math.min(Math.floor(position), stops.length - 2);
  const part = position - lower;
  const [from, to] = [channels(stops[lower]!), channels(stops[lower + 1]!)];
  const mixed = from.map((value, i) =>
    Math.round(value * (1 - part) + to[i]! * part)
      .toString(16)
      .padStart(2, "0"),
  );
  return `#${mixed.join("")}`;
}

/** Return a color's red, green and blue components, each from 0 to 255. */
function channels(hex: string): [number, number, number] {
  const channel = (start: number): number => parseInt(hex.slice(start, start + 2), 16);
  return [channel(1), channel(3), channel(5)];
}

/** Return a text color with enough contrast to a background, based on approximate luminance. */
export function textOn(background: string): string {
  const [red, green, blue] = channels(background).map((value) => (value / 255) ** 2.2);
  const luminance = 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
  return luminance > 0.3 ? THEMES.light.ink : THEMES.light.bg;
}

/** Sizes in CSS px. */
export const SIZE = {
  toolbar: 36,
  minimap: 32,
  axis: 20,
  steps: 16,
  status: 28,
  gutter: 164,
  margin: 128,
  details: 196,
  gutterNarrow: 104,
  /** Minimum width of stages with a margin. */
  marginFrom: 900,
  /** Minimum width of stages with the wide gutter, which has lane names. */
  gutterFrom: 760,
} as const;

export const MOTION = { hover: 0, zoomKey: 120, zoomFit: 180, panel: 140 } as const;

export const FONT_FAMILY = tokens.font;

/** Canvas font strings, keyed by role. */
export const FONT = {
  label: `11px ${FONT_FAMILY}`,
  labelStrong: `600 11px ${FONT_FAMILY}`,
  body: `12px ${FONT_FAMILY}`,
  bodyStrong: `600 12px ${FONT_FAMILY}`,
} as const;

/** Set the theme's colors as CSS variables, so that style sheets and canvases share one table. */
export function applyTheme(root: HTMLElement, name: ThemeName): void {
  const theme = THEMES[name];
  root.dataset.theme = name;
  root.style.setProperty("color-scheme", name);
  root.style.setProperty("--hta-font", FONT_FAMILY);
  root.style.setProperty("--hta-mono", tokens.mono);
  for (const [key, value] of Object.entries(tokens[name])) {
    if (typeof value !== "string") continue;
    const property = key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    root.style.setProperty(`--hta-${property}`, value);
  }
  for (const [kind, color] of Object.entries(theme.kind)) {
    root.style.setProperty(`--hta-kind-${kind}`, color);
  }
}
