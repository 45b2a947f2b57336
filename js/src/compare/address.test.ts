import { expect, test } from "vitest";
import { LooseModel } from "../../test/model";
import { sceneOf } from "../../test/recorded";
import { splitFragment } from "../connection/address";
import type { Scene } from "../protocol/source";
import { applyComparisonAddress, comparisonLink } from "./address";

const ABOUT = {
  rank_pairs: [
    [0, 0],
    [1, 1],
  ],
};
const scenes: [Scene, Scene] = [sceneOf(2), sceneOf(2)];

function comparison(traits: Record<string, unknown>) {
  const states: [LooseModel, LooseModel] = [new LooseModel({}), new LooseModel({})];
  return { model: new LooseModel({ _about: ABOUT, ...traits }), states, scenes };
}
const address = (state: string) => ({ base: "file:///d.html#", state, isPage: true, panels: [] });

test("a link restores both timelines, the pair of ranks and the settings", () => {
  const shown = comparison({ _address: address(""), pair: 1, align: "absolute", swapped: true });
  shown.states[0].set("view", [10, 900]);
  shown.states[1].set("search", "a & b");
  const link = comparisonLink(shown)!;
  const opened = comparison({ _address: address(splitFragment(link)[1]) });
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

test("what these runs do not have is left out; a notebook has no link", () => {
  const opened = comparison({ _address: address("before=view%3D5_1&pair=9&align=up") });
  applyComparisonAddress(opened);
  expect(opened.states[0].get("view")).toBeNull();
  expect([opened.model.get("pair"), opened.model.get("align")]).toEqual([null, "steps"]);
  expect(comparisonLink(comparison({}))).toBeNull();
});
