/** Another colouring than by kind: tiles carry a class for each event, and a class has a look. */

import type { Kind, ThemeName } from "../contract";
import { contrast, mix, pack, type Paints, paintsOf, type Rgb, rgb, STEPS } from "./paints";
import { type Theme } from "./theme";

/** What tiles say where nothing is known of an event. */
export const NO_CLASS = 255;

export interface ClassLook {
  colour: string;
  /** Told by its form as well: diagonal lines of the colour over a pale ground. */
  hatched: boolean;
  /** Paler than the others: there, and nothing to look at. */
  faint?: boolean;
}

/** What a legend names, and the looks of it. */
export interface ClassKey {
  name: string;
  looks: readonly ClassLook[];
}

export interface Classes {
  keys(theme: ThemeName): readonly ClassKey[];
  /** By class; the last one is that of events of which nothing is known. */
  looks(theme: ThemeName): readonly ClassLook[];
}

const SHADES = 3;
const PENDING = 0.55;
const PALE_CLASS_COLUMN = 0.75;
/** Share of the colour in the ground between the lines, and in a call of the host. */
const HATCH_GROUND = 0.16;
const TINT = 0.3;
const FAINT = 0.45;

/** Paints whose entries are classes instead of kinds; what lies around events is the same. */
export function classPaints(theme: Theme, kinds: readonly Kind[], classes: Classes): Paints {
  const looks = classes.looks(theme.name);
  const lane = rgb(theme.lane);
  const bg = rgb(theme.bg);
  const full = looks.map(({ colour, faint }) =>
    faint === true ? mix(rgb(colour), lane, FAINT) : rgb(colour),
  );
  const ramp = (ground: Rgb, alpha: number): Uint32Array => {
    const out = new Uint32Array(looks.length * (STEPS + 1));
    full.forEach((colour, at) => {
      const top = mix(colour, ground, alpha);
      for (let step = 0; step <= STEPS; step += 1) {
        out[at * (STEPS + 1) + step] = pack(mix(top, ground, step / STEPS));
      }
    });
    return out;
  };
  const ramps = (alpha: number): Paints["columns"] => ({
    solid: ramp(lane, alpha),
    counter: ramp(lane, alpha),
    pale: ramp(bg, PALE_CLASS_COLUMN * alpha),
    bar: ramp(bg, alpha),
  });
  const table = (of: (colour: Rgb) => Rgb): Uint32Array =>
    Uint32Array.from(
      full.flatMap((colour) => Array.from({ length: SHADES }, () => pack(of(colour)))),
    );
  const texts = ["#ffffff", theme.name === "dark" ? theme.onKind.compute : theme.ink] as const;
  return {
    ...paintsOf(theme, kinds, new Set()),
    byClass: true,
    unknownClass: looks.length - 1,
    columns: ramps(1),
    pendingColumns: ramps(PENDING),
    solid: table((colour) => colour),
    tint: table((colour) => mix(colour, bg, TINT)),
    edge: table((colour) => colour),
    isPale: new Uint8Array(looks.length),
    edgePx: new Float32Array(looks.length).fill(2),
    textOn: full.flatMap((colour, at) => {
      const [light, dark] = texts;
      const ground = looks[at]!.hatched ? mix(colour, bg, HATCH_GROUND) : colour;
      const text = contrast(rgb(light), ground) >= contrast(rgb(dark), ground) ? light : dark;
      return Array.from({ length: SHADES }, () => text);
    }),
    hatched: Uint8Array.from(looks, ({ hatched }) => (hatched ? 1 : 0)),
    hatchedGround: Uint32Array.from(full, (colour) => pack(mix(colour, bg, HATCH_GROUND))),
  };
}
