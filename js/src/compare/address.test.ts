import { expect, test } from "vitest";
import { LooseModel } from "../../test/model";
import { sceneOf } from "../../test/recorded";
import { splitFragment } from "../connection/address";
import type { Scene, Span } from "../protocol/source";
import { applyComparisonAddress, comparisonLink } from "./address";
import { SIDES } from "./frames";

const ABOUT = {
  rank_pairs: [
    [0, 0],
    [1, 1],
  ],
};
const scenes: [Scene, Scene] = [sceneOf(2), sceneOf(2)];

function comparison(traits: Record<string, unknown>) {
  const states: [LooseModel, LooseModel] = [new LooseModel({}), new LooseModel({})];
  const model = new LooseModel({ _about: ABOUT, ...traits });
  const [start, end] = scenes[0].range;
  const wholes: [Span, Span] = [scenes[0].range, [start, end + 100]];
  return { options: { model, states, scenes }, wholes };
}
const address = (state: string) => ({ base: "file:///d.html#", state, isPage: true, panels: [] });

test("a link restores both timelines, the pair of ranks and the settings", () => {
  const shown = comparison({ _address: address(""), pair: 1, align: "absolute", swapped: true });
  const { states } = shown.options;
  states[0].set("view", [10, 900]);
  states[1].set("search", "a & b");
  const link = comparisonLink(shown)!;
  const opened = comparison({ _address: address(splitFragment(link)[1]) }).options;
  applyComparisonAddress(opened);
  expect(opened.states.map((state) => [state.get("view"), state.get("search")])).toEqual([
    [[10, 900], ""],
    [null, "a & b"],
  ]);
  const settings = ["pair", "align", "swapped", "coupled", "color"];
  expect(settings.map((name) => opened.model.get(name))).toEqual([
    ...[1, "absolute", true],
    ...[true, "change"],
  ]);
});

test("runs as a whole are not in the link, a window after the end of the shorter one is", () => {
  const { options, wholes } = comparison({ _address: address("") });
  for (const side of SIDES) options.states[side].set("view", [...wholes[side]]);
  expect(comparisonLink({ options, wholes })).toBe("file:///d.html");
  const end = scenes[1].range[1];
  options.states[1].set("view", [end - 50, end + 90]);
  const link = comparisonLink({ options, wholes })!;
  const opened = comparison({ _address: address(splitFragment(link)[1]) }).options;
  applyComparisonAddress(opened);
  expect(opened.states[1].get("view")).toEqual([end - 50, end + 90]);
});

test("parts that these runs lack are ignored; a notebook has no link", () => {
  const opened = comparison({ _address: address("before=view%3D5_1&pair=9&align=up") }).options;
  applyComparisonAddress(opened);
  expect(opened.states[0].get("view")).toBeNull();
  expect([opened.model.get("pair"), opened.model.get("align")]).toEqual([null, "steps"]);
  expect(comparisonLink(comparison({}))).toBeNull();
});
