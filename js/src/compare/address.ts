/**
 * The address of a comparison holds the state of both timelines and the comparison's settings.
 *
 *     diff.html#?before=view%3D0_900&after=view%3D0_950&pair=3&align=absolute
 */

import {
  addressTrait,
  decodeState,
  followAddress,
  linkTo,
  stateText,
  addressChanges,
} from "../connection/link";
import { type Model, STATE_KEYS } from "../connection/store";
import type { Scene, Span } from "../protocol/source";
import type { DiffOptions } from "./context";
import { type BySide, type DiffFacts, type Side, SIDES } from "./frames";

const NAMES = ["before", "after"] as const;
/** The settings in an address and their values. The first value, the default, is omitted. */
const SETTINGS = {
  align: ["steps", "first_step", "collectives", "absolute", "scaled"],
  color: ["change", "kind", "name"],
  coupled: [true, false],
  swapped: [false, true],
} as const;
const SETTING_NAMES = Object.keys(SETTINGS) as (keyof typeof SETTINGS)[];

type ComparisonParts = Pick<DiffOptions, "model" | "states" | "scenes">;
interface ComparisonView {
  options: ComparisonParts;
  /** The window that shows all of a run, for each run. */
  wholes: BySide<Span>;
}

/** Return the state as text; null if it is too long for an address. */
function comparisonText({ options, wholes }: ComparisonView): string | null {
  const { model, states } = options;
  const parts = new URLSearchParams();
  for (const side of SIDES) {
    const text = stateText(states[side], wholes[side]);
    if (text === null) return null;
    if (text !== "") parts.append(NAMES[side], text);
  }
  const pair = model.get("pair") as number | null | undefined;
  if (typeof pair === "number") parts.append("pair", String(pair));
  for (const name of SETTING_NAMES) {
    const value = model.get(name) as string | boolean | undefined;
    if (value !== undefined && value !== SETTINGS[name][0]) parts.append(name, String(value));
  }
  return parts.toString();
}

/** Return a link to the current state; null if the page has no address or the state is too long. */
export function comparisonLink(view: ComparisonView): string | null {
  return linkTo(view.options.model, comparisonText(view));
}

/** Apply the state in the model's address. Parts that do not exist in these runs are ignored. */
export function applyComparisonAddress({ model, states, scenes }: ComparisonParts): void {
  const address = addressTrait(model);
  if (address === null || address.state === "") return;
  const parts = new URLSearchParams(address.state);
  for (const side of SIDES) {
    const reach = { ...scenes[side], range: alignedReach(scenes, side) };
    const { state } = decodeState(parts.get(NAMES[side]) ?? "", reach, []);
    for (const key of STATE_KEYS) states[side].set(key, state[key]);
    states[side].save_changes();
  }
  const { rank_pairs: pairs } = model.get("_about") as DiffFacts;
  const pair = Number(parts.get("pair") ?? Number.NaN);
  model.set("pair", pairs[pair] === undefined ? null : pair);
  for (const name of SETTING_NAMES) {
    const values: readonly (string | boolean)[] = SETTINGS[name];
    model.set(name, values.find((value) => String(value) === parts.get(name)) ?? values[0]);
  }
  model.save_changes();
}

/** Return the times that a window may show: aligned runs begin and end at different times. */
function alignedReach(scenes: BySide<Scene>, side: Side): [number, number] {
  const [start, end] = scenes[side].range;
  const slack = Math.max(...scenes.map(({ range }) => range[1] - range[0]));
  return [start - slack, end + slack];
}

/** Update the page's address whenever the state of the comparison changes. */
export function followComparisonAddress(
  view: ComparisonView,
  signal: AbortSignal,
  changeBoth: (act: () => void) => void,
): void {
  const { model, states } = view.options;
  const changes = [
    ...SIDES.flatMap((side) => addressChanges(model, states[side])),
    ...["pair", ...SETTING_NAMES].map((name): [Model, string] => [model, name]),
  ];
  const apply = (): void => changeBoth(() => applyComparisonAddress(view.options));
  followAddress(model, changes, () => comparisonText(view), signal, apply);
}
