/**
 * The state of a comparison in an address: that of both timelines, and its own settings.
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
import type { DiffOptions } from "./context";
import { type DiffFacts, SIDES } from "./frames";

const NAMES = ["before", "after"] as const;
/** Settings with the values that an address may give them; the first one is not written. */
const SETTINGS = {
  align: ["steps", "first_step", "collectives", "absolute", "scaled"],
  color: ["change", "kind", "name"],
  coupled: [true, false],
  swapped: [false, true],
} as const;
const SETTING_NAMES = Object.keys(SETTINGS) as (keyof typeof SETTINGS)[];

type ComparisonParts = Pick<DiffOptions, "model" | "states" | "scenes">;

/** The state as text; null if it is too long. */
function comparisonText({ model, states, scenes }: ComparisonParts): string | null {
  const parts = new URLSearchParams();
  for (const side of SIDES) {
    const text = stateText(states[side], scenes[side]);
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

/** The link to a comparison as it is shown; null without an address, or if it is too long. */
export function comparisonLink(options: ComparisonParts): string | null {
  return linkTo(options.model, comparisonText(options));
}

/** Apply the state of the model's address; parts that these runs do not have are left out. */
export function applyComparisonAddress({ model, states, scenes }: ComparisonParts): void {
  const address = addressTrait(model);
  if (address === null || address.state === "") return;
  const parts = new URLSearchParams(address.state);
  for (const side of SIDES) {
    const { state } = decodeState(parts.get(NAMES[side]) ?? "", scenes[side], []);
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

/** Keep the page's address equal to the state of a comparison. */
export function followComparisonAddress(options: ComparisonParts & { signal: AbortSignal }): void {
  const { model, states, signal } = options;
  const changes = [
    ...SIDES.flatMap((side) => addressChanges(model, states[side])),
    ...["pair", ...SETTING_NAMES].map((name): [Model, string] => [model, name]),
  ];
  const apply = (): void => applyComparisonAddress(options);
  followAddress(model, changes, () => comparisonText(options), signal, apply);
}
