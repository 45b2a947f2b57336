/** A theme's colors as packed pixels for the rasterizer, by form, kind and shade. */

import type { ClassPalette, ClassStyle, ClassShares, Kind } from "../protocol/source";
import { weightOfClass } from "../facts/event_classes";
import type { Theme } from "../ui/theme";
import type { BandForm } from "./bands";

/** Number of steps between a lane's color and the full color, for partly covered pixels. */
export const STEPS = 16;
export const SHADES = 3;
/** Alpha of cells from another level, drawn until the required level is loaded. */
const PENDING = 0.55;
const DIMMED = 0.22;
/** Share of the color in columns of host events, which are too narrow for tint and edge. */
const PALE_COLUMN = 0.55;
const BAR_ALPHA = 0.75;
/** Opacity of the late color in the row of a rank that makes the rest of the job wait. */
export const LATE_TINT = 0.07;

interface Rgb {
  r: number;
  g: number;
  b: number;
}

export function rgb(hex: string): Rgb {
  const value = Number.parseInt(hex.slice(1, 7), 16);
  return { r: (value >> 16) & 255, g: (value >> 8) & 255, b: value & 255 };
}

/** Mix a share of color `a` with the rest of `b`. */
export function mix(a: Rgb, b: Rgb, share: number): Rgb {
  const blend = (x: number, y: number) => Math.round(x * share + y * (1 - share));
  return { r: blend(a.r, b.r), g: blend(a.g, b.g), b: blend(a.b, b.b) };
}

/** Pack a color into a pixel of ImageData read as 32 bits, little-endian in all browsers. */
export function pack({ r, g, b }: Rgb): number {
  return (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
}

/** Return the FNV-1a hash of the UTF-8 bytes. */
export function fnv1a32(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return hash >>> 0;
}

function luminance({ r, g, b }: Rgb): number {
  const linear = (value: number) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

/** Return the contrast ratio as defined by WCAG. */
export function contrast(a: Rgb, b: Rgb): number {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

/** Return the text color with the higher contrast. */
export function readableOn(background: Rgb, texts: readonly [string, string]): string {
  const [a, b] = texts;
  return contrast(rgb(a), background) >= contrast(rgb(b), background) ? a : b;
}

/** Return the theme's dark text color, which in the dark theme differs from `ink`. */
function darkText(theme: Theme): string {
  return theme.name === "dark" ? theme.onKind.compute : theme.ink;
}

export function shadeIndex(hash: number): number {
  return hash % SHADES;
}

/** Colors of columns: entry `kind · (STEPS + 1) + step`. */
type ColorRamp = Uint32Array;

/** Number of distinct steps between two stops of a ramp. */
const RAMP_STEPS = 8;

/** Return the colors of a ramp: its stops and the interpolated steps between them. */
function buildRamp(stops: readonly string[]): Uint32Array {
  const colors = new Uint32Array((stops.length - 1) * RAMP_STEPS + 1);
  for (let step = 0; step < colors.length; step += 1) {
    const stop = Math.min(Math.floor(step / RAMP_STEPS), stops.length - 2);
    const [color, nextColor] = [rgb(stops[stop]!), rgb(stops[stop + 1]!)];
    colors[step] = pack(mix(nextColor, color, step / RAMP_STEPS - stop));
  }
  return colors;
}

/** The style of a kind or class of events. */
interface EventStyle {
  /** Colors for each shade, and the text colors to use on them. */
  colors: readonly Rgb[];
  texts: readonly string[];
  /** Strength of columns, keyed by lane form. */
  columns: Readonly<Record<"solid" | "pale" | "bar", number>>;
  /** Share of the color in a tint. */
  tint: number;
  isPale: boolean;
  edgePx: number;
  hatched: boolean;
}

export type StagePaints = Readonly<ReturnType<typeof buildPaints>>;

/** Return the column colors for each lane form. `alpha` is the opacity over the background. */
function buildColumns(
  styles: readonly EventStyle[],
  lane: Rgb,
  bg: Rgb,
  alpha: number,
): Readonly<Record<BandForm, ColorRamp>> {
  const rampOf = (form: keyof EventStyle["columns"], ground: Rgb): ColorRamp => {
    const ramps = styles.map(({ colors, columns }) => {
      const full = mix(colors[0]!, ground, columns[form] * alpha);
      return Array.from({ length: STEPS + 1 }, (_, step) => pack(mix(full, ground, step / STEPS)));
    });
    return Uint32Array.from(ramps.flat());
  };
  const solid = rampOf("solid", lane);
  return { solid, counter: solid, pale: rampOf("pale", bg), bar: rampOf("bar", bg) };
}

/** `hostStyle` is the code of host calls; -1 if names do not determine the colors of host calls. */
function buildPaints(
  theme: Theme,
  styles: readonly EventStyle[],
  { hostStyle, byClass }: { hostStyle: number; byClass: boolean },
) {
  const lane = rgb(theme.lane);
  const bg = rgb(theme.bg);
  const packColor = (hex: string, share = 1, ground = bg): number =>
    pack(mix(rgb(hex), ground, share));
  return {
    host: hostStyle,
    /** Whether entries are event classes instead of kinds. */
    byClass,
    /** For each entry, the weight of its share of a pixel, which keeps changed calls visible. */
    columnWeights: Uint8Array.from(styles, (_, code) => (byClass ? weightOfClass(code) : 1)),
    /** Class of events in tiles without classes. */
    unknownClass: styles.length - 1,
    bg: pack(bg),
    /** Background of marks. Device lanes have their own background to make idle time visible. */
    ground: { solid: pack(lane), counter: pack(lane), pale: pack(bg), bar: pack(bg) },
    rule: packColor(theme.rule),
    hatchLine: packColor(theme.ruleStrong, 0.32),
    hatchGround: pack(bg),
    columns: buildColumns(styles, lane, bg, 1),
    pendingColumns: buildColumns(styles, lane, bg, PENDING),
    /** Rectangles: entry `kind · 3 + shade`. */
    solid: Uint32Array.from(styles.flatMap(({ colors }) => colors.map(pack))),
    tint: Uint32Array.from(
      styles.flatMap(({ colors, tint }) => colors.map((color) => pack(mix(color, bg, tint)))),
    ),
    /** Text on a solid rectangle: entry `kind · 3 + shade`. */
    textOn: styles.flatMap(({ texts }) => texts),
    /** For host calls colored by name, indexed by hue. */
    hostTint: Uint32Array.from(theme.hostHues, (hue) => packColor(hue, theme.hostTint)),
    hostEdge: Uint32Array.from(theme.hostHues, (hue) => packColor(hue)),
    /** For each kind, whether it is drawn as a tint with an edge, even for device events. */
    isPale: Uint8Array.from(styles, ({ isPale }) => (isPale ? 1 : 0)),
    /** For each kind, the width of its edge in CSS px. */
    edgePx: Float32Array.from(styles, ({ edgePx }) => edgePx),
    /** For each class, whether it is hatched on a pale background, and the background color. */
    hatched: Uint8Array.from(styles, ({ hatched }) => (hatched ? 1 : 0)),
    hatchedGround: Uint32Array.from(styles, ({ colors }) =>
      pack(mix(colors[0]!, bg, HATCH_GROUND)),
    ),
    counterFill: packColor(theme.ink2, 0.2, lane),
    counterRange: packColor(theme.ink2, 0.4, lane),
    counterLine: packColor(theme.ink2, 0.8, lane),
    waitFill: packColor(theme.waitFill),
    waitLine: packColor(theme.waitLine),
    /** Color ramp of a ribbon, from on time to latest. */
    ribbon: buildRamp(theme.waiting),
    lateLine: packColor(theme.late),
    /** Color of late arrivals of ranks that do not make the rest of the job wait. */
    lastLine: packColor(theme.ink3),
    /** Background of the row of a rank that makes the rest of the job wait. */
    lateGround: packColor(theme.late, LATE_TINT),
  };
}

export function kindPaints(
  theme: Theme,
  kinds: readonly Kind[],
  dimmed: ReadonlySet<Kind>,
): StagePaints {
  const styles = kinds.map((kind): EventStyle => {
    const shades = theme.nameShades[kind].map(rgb);
    const isPale = kind === "cpu" || kind === "annotation";
    const [, ...others] = shades.map((shade) => readableOn(shade, ["#ffffff", darkText(theme)]));
    const isDimmed = dimmed.has(kind);
    return {
      colors: isDimmed ? shades.map((shade) => mix(shade, rgb(theme.lane), DIMMED)) : shades,
      texts: isDimmed ? shades.map(() => theme.ink2) : [theme.onKind[kind], ...others],
      columns: { solid: isPale ? PALE_COLUMN : 1, pale: PALE_COLUMN, bar: BAR_ALPHA },
      tint: kind === "annotation" ? theme.annotationTint : theme.cpuTint,
      isPale,
      edgePx: kind === "annotation" ? 2 : 1.5,
      hatched: false,
    };
  });
  const hostStyle = dimmed.has("cpu") ? -1 : kinds.indexOf("cpu");
  return buildPaints(theme, styles, { hostStyle, byClass: false });
}

// Coloring by class instead of kind. Tiles contain the class of each event.

const PALE_CLASS_COLUMN = 0.75;
/** Share of the color in the background of a hatched event and in a host call. */
const HATCH_GROUND = 0.16;
const CLASS_TINT = 0.3;
const FAINT_SHARE = 0.45;

/** Return paints whose entries are event classes instead of kinds. */
export function classPaints(theme: Theme, classes: ClassPalette): StagePaints {
  const styles = classes.styles(theme.name).map(({ color, faint, hatched }): EventStyle => {
    const full = faint === true ? mix(rgb(color), rgb(theme.lane), FAINT_SHARE) : rgb(color);
    const background = hatched ? mix(full, rgb(theme.bg), HATCH_GROUND) : full;
    const text = readableOn(background, ["#ffffff", darkText(theme)]);
    return {
      colors: Array<Rgb>(SHADES).fill(full),
      texts: Array<string>(SHADES).fill(text),
      columns: { solid: 1, pale: PALE_CLASS_COLUMN, bar: 1 },
      tint: CLASS_TINT,
      isPale: false,
      edgePx: 2,
      hatched,
    };
  });
  return buildPaints(theme, styles, { hostStyle: -1, byClass: true });
}

// The class shares of device work over the whole job, drawn in the minimap.

/** Return a function that gives the color and share of each class at a time. */
export function classSharesAt(
  { start, end, shares }: ClassShares,
  styles: readonly ClassStyle[],
  theme: Theme,
): (time: number) => [color: number, share: number][] {
  const lane = rgb(theme.lane);
  const layers = shares.map(([code, share]) => {
    const style = styles[code];
    const full = rgb(style?.color ?? theme.lane);
    return { share, color: pack(style?.faint === true ? mix(full, lane, FAINT_SHARE) : full) };
  });
  const count = shares[0]?.[1].length ?? 0;
  return (time) => {
    if (time < start || time > end) return [];
    const part = Math.floor(((time - start) / Math.max(end - start, 1)) * count);
    const nearest = Math.min(part, count - 1);
    return layers.map(({ color, share }) => [color, share[nearest] ?? 0]);
  };
}
