/** The theme's colours as packed pixels, by form, kind and shade, ready for the rasteriser. */

import type { Classes, ClassLook, ClassParts, Kind } from "../protocol/source";
import { type Theme, THEMES } from "../ui/theme";
import type { Form } from "./rows";

/** Number of steps from the lane's colour to the full one, for partly covered pixels. */
export const STEPS = 16;
const SHADES = 3;
/** Alpha of cells drawn in place of a level that is not loaded yet. */
const PENDING = 0.55;
const DIMMED = 0.22;
/** Share of the colour in columns of host events, too short for a tint and an edge. */
const PALE_COLUMN = 0.55;
const BAR = 0.75;
/** Opacity of the late colour over the row of a rank that the others wait for. */
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

/** `share` of `a` over `b`. */
export function mix(a: Rgb, b: Rgb, share: number): Rgb {
  const blend = (x: number, y: number) => Math.round(x * share + y * (1 - share));
  return { r: blend(a.r, b.r), g: blend(a.g, b.g), b: blend(a.b, b.b) };
}

/** Colour as a pixel of ImageData read in 32 bits, which are little-endian in all browsers. */
export function pack({ r, g, b }: Rgb): number {
  return (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
}

/** FNV-1a over the UTF-8 bytes. */
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

/** Contrast ratio as defined by WCAG. */
export function contrast(a: Rgb, b: Rgb): number {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

/** The text colour with the higher contrast. */
export function betterOn(ground: Rgb, texts: readonly [string, string]): string {
  const [a, b] = texts;
  return contrast(rgb(a), ground) >= contrast(rgb(b), ground) ? a : b;
}

/** The theme's dark text, which differs from its ink in the dark theme. */
function onDark(theme: Theme): string {
  return theme.name === "dark" ? theme.onKind.compute : theme.ink;
}

/** The shade of events by the hash of their name. */
export function shadeOf(hash: number): number {
  return hash % SHADES;
}

/** The hue of host calls by the hash of their name. */
export function hueOf(hash: number): number {
  return hash % THEMES.light.hostHues.length;
}

/** Colours of columns: entry `kind · (STEPS + 1) + step`. */
type Ramp = Uint32Array;

/** Number of distinct steps between two stops of a ramp. */
const RAMP_STEPS = 8;

/** A ramp's stops and the interpolated steps between them. */
function rampOf(stops: readonly string[]): Uint32Array {
  const out = new Uint32Array((stops.length - 1) * RAMP_STEPS + 1);
  for (let at = 0; at < out.length; at += 1) {
    const stop = Math.min(Math.floor(at / RAMP_STEPS), stops.length - 2);
    const share = at / RAMP_STEPS - stop;
    out[at] = pack(mix(rgb(stops[stop + 1]!), rgb(stops[stop]!), share));
  }
  return out;
}

/** Style of a kind or a class of events. */
interface Look {
  /** Colours and the text on them, by shade. */
  colours: readonly Rgb[];
  texts: readonly string[];
  /** Strength of columns in lanes of each form. */
  columns: Readonly<Record<"solid" | "pale" | "bar", number>>;
  /** Share of the colour in a tint. */
  tint: number;
  isPale: boolean;
  edgePx: number;
  hatched: boolean;
}

export type Paints = Readonly<ReturnType<typeof paintsFrom>>;

/** `host` is the code of calls of the host; -1 if they have no colours by name. */
function paintsFrom(theme: Theme, looks: readonly Look[], host: number, byClass: boolean) {
  const lane = rgb(theme.lane);
  const bg = rgb(theme.bg);
  const ink = rgb(theme.ink2);
  const ramp = (form: keyof Look["columns"], ground: Rgb, alpha: number): Ramp => {
    const ramps = looks.map(({ colours, columns }) => {
      const full = mix(colours[0]!, ground, columns[form] * alpha);
      return Array.from({ length: STEPS + 1 }, (_, step) => pack(mix(full, ground, step / STEPS)));
    });
    return Uint32Array.from(ramps.flat());
  };
  const rampsAt = (alpha: number): Readonly<Record<Form, Ramp>> => {
    const solid = ramp("solid", lane, alpha);
    return { solid, counter: solid, pale: ramp("pale", bg, alpha), bar: ramp("bar", bg, alpha) };
  };
  /** Background of the marks: a device lane has its own, to make its idle time visible. */
  const ground: Readonly<Record<Form, number>> = {
    solid: pack(lane),
    counter: pack(lane),
    pale: pack(bg),
    bar: pack(bg),
  };
  return {
    host,
    /** Whether entries are classes carried by tiles, not kinds. */
    byClass,
    /** Class of events in tiles without classes. */
    unknownClass: looks.length - 1,
    bg: pack(bg),
    ground,
    rule: pack(rgb(theme.rule)),
    hatchLine: pack(mix(rgb(theme.ruleStrong), bg, 0.32)),
    hatchGround: pack(bg),
    columns: rampsAt(1),
    pendingColumns: rampsAt(PENDING),
    /** Rectangles: entry `kind · 3 + shade`. */
    solid: Uint32Array.from(looks.flatMap(({ colours }) => colours.map(pack))),
    tint: Uint32Array.from(
      looks.flatMap(({ colours, tint }) => colours.map((colour) => pack(mix(colour, bg, tint)))),
    ),
    /** Text on a solid rectangle: entry `kind · 3 + shade`. */
    textOn: looks.flatMap(({ texts }) => texts),
    /** By hue: calls of the host by name. */
    hostTint: Uint32Array.from(theme.hostHues, (hue) => pack(mix(rgb(hue), bg, theme.hostTint))),
    hostEdge: Uint32Array.from(theme.hostHues, (hue) => pack(rgb(hue))),
    /** By kind: drawn as a tint with an edge even among device events. */
    isPale: Uint8Array.from(looks, ({ isPale }) => (isPale ? 1 : 0)),
    /** By kind: width of the edge in CSS px. */
    edgePx: Float32Array.from(looks, ({ edgePx }) => edgePx),
    /** By class: drawn as lines over a pale ground, and that ground. */
    hatched: Uint8Array.from(looks, ({ hatched }) => (hatched ? 1 : 0)),
    hatchedGround: Uint32Array.from(looks, ({ colours }) =>
      pack(mix(colours[0]!, bg, HATCH_GROUND)),
    ),
    counterFill: pack(mix(ink, lane, 0.2)),
    counterLine: pack(mix(ink, lane, 0.8)),
    waitFill: pack(rgb(theme.waitFill)),
    waitLine: pack(rgb(theme.waitLine)),
    /** Ramp of a ribbon, from on time to latest. */
    ribbon: rampOf(theme.waiting),
    lateFill: pack(rgb(theme.lateFill)),
    lateLine: pack(rgb(theme.late)),
    /** Colours of late arrivals of a rank that the others do not wait for. */
    lastFill: pack(mix(rgb(theme.ink3), bg, 0.12)),
    lastLine: pack(rgb(theme.ink3)),
    /** Behind the row of a rank that the others wait for. */
    lateGround: pack(mix(rgb(theme.late), bg, LATE_TINT)),
  };
}

export function paintsOf(theme: Theme, kinds: readonly Kind[], dimmed: ReadonlySet<Kind>): Paints {
  const looks = kinds.map((kind): Look => {
    const shades = theme.nameShades[kind].map(rgb);
    const isPale = kind === "cpu" || kind === "annotation";
    const [, ...others] = shades.map((shade) => betterOn(shade, ["#ffffff", onDark(theme)]));
    const isDimmed = dimmed.has(kind);
    return {
      colours: isDimmed ? shades.map((shade) => mix(shade, rgb(theme.lane), DIMMED)) : shades,
      texts: isDimmed ? shades.map(() => theme.ink2) : [theme.onKind[kind], ...others],
      columns: { solid: isPale ? PALE_COLUMN : 1, pale: PALE_COLUMN, bar: BAR },
      tint: kind === "annotation" ? theme.annotationTint : theme.cpuTint,
      isPale,
      edgePx: kind === "annotation" ? 2 : 1.5,
      hatched: false,
    };
  });
  return paintsFrom(theme, looks, dimmed.has("cpu") ? -1 : kinds.indexOf("cpu"), false);
}

// Colouring by class instead of kind: tiles carry a class for each event, and a class has a style.

const PALE_CLASS_COLUMN = 0.75;
/** Share of the colour in the ground between the lines, and in a call of the host. */
const HATCH_GROUND = 0.16;
const TINT = 0.3;
const FAINT = 0.45;

/** Paints whose entries are classes instead of kinds; the other colours are the same. */
export function classPaints(theme: Theme, classes: Classes): Paints {
  const looks = classes.looks(theme.name).map(({ colour, faint, hatched }): Look => {
    const full = faint === true ? mix(rgb(colour), rgb(theme.lane), FAINT) : rgb(colour);
    const ground = hatched ? mix(full, rgb(theme.bg), HATCH_GROUND) : full;
    const text = betterOn(ground, ["#ffffff", onDark(theme)]);
    return {
      colours: Array<Rgb>(SHADES).fill(full),
      texts: Array<string>(SHADES).fill(text),
      columns: { solid: 1, pale: PALE_CLASS_COLUMN, bar: 1 },
      tint: TINT,
      isPale: false,
      edgePx: 2,
      hatched,
    };
  });
  return paintsFrom(theme, looks, -1, true);
}

// Share of each class of events in the device work of the whole job, for the minimap.

/** Packed colour and share of each class at a time; empty outside of the window. */
export function partsAt(
  { start, end, shares }: ClassParts,
  looks: readonly ClassLook[],
  theme: Theme,
): (time: number) => [colour: number, share: number][] {
  const lane = rgb(theme.lane);
  const layers = shares.map(([code, share]) => {
    const look = looks[code];
    const full = rgb(look?.colour ?? theme.lane);
    return { share, colour: pack(look?.faint === true ? mix(full, lane, FAINT) : full) };
  });
  const count = shares[0]?.[1].length ?? 0;
  return (time) => {
    const part = Math.floor(((time - start) / Math.max(end - start, 1)) * count);
    if (time < start || time > end) return [];
    const at = Math.min(part, count - 1);
    return layers.map(({ colour, share }) => [colour, share[at] ?? 0]);
  };
}
