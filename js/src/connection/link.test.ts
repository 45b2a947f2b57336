/** View state in a URL: its contents, and what remains of a forged one. */

import { expect, onTestFinished, test, vi } from "vitest";
import { freshState, LooseModel } from "../../test/model";
import { FULL_SELECTION } from "../protocol/selection";
import type { Scene, SharedState } from "../protocol/source";
import { pageAddress, splitFragment } from "./address";
import {
  addressTrait,
  addressChanges,
  applyAddress,
  changedPanels,
  decodeState,
  encodeState,
  followAddress,
  stateText,
  linkOf,
} from "./link";
import { INITIAL_STATE, STATE_KEYS } from "./store";

const rank = (number: number) => ({
  rank: number,
  tracks: [{ key: "gpu/7" }, { key: "a_b & <c>" }],
});
const SCENE = { range: [-50, 1000], ranks: [0, 1, 2, 3, 7].map(rank) } as unknown as Scene;
const OFFERED = ["breakdown", "kernel_types", "timeline"];

const state = (patch: Partial<SharedState>): SharedState => ({ ...INITIAL_STATE, ...patch });
const decode = (text: string) => decodeState(text, SCENE, OFFERED);

const LINKED: [Partial<SharedState>, string][] = [
  [{}, ""],
  [{ view: [-20, 900] }, "view=-20_900"],
  [{ selection: { ...FULL_SELECTION, ranks: [0, 1, 2, 7] } }, "ranks=0-2.7"],
  [{ selection: { ...FULL_SELECTION, ranks: [] } }, "ranks="],
  [{ selection: { ...FULL_SELECTION, end_ns: 4 }, scope: "view" }, "window=_4&scope=view"],
  [
    { selected_event: [7, 12], color: "name", search: "a=b&c" },
    "event=7_12&search=a%3Db%26c&color=name",
  ],
  [{ selection: { ...FULL_SELECTION, query: "name in ['x']" } }, "query=name+in+%5B%27x%27%5D"],
  [
    {
      selection: {
        ...FULL_SELECTION,
        ids: [
          [0, 5],
          [7, 6],
        ],
      },
      ranks_from: "breakdown",
    },
    "events=0_5.7_6&from=breakdown",
  ],
  [
    {
      selection: { ...FULL_SELECTION, tracks: ["gpu/7", [3, "a_b & <c>"]] as never },
      pinned: ["gpu/7"],
    },
    "track=gpu%2F7&rank_track=3_a_b+%26+%3Cc%3E&pin=gpu%2F7",
  ],
];

test.each(LINKED)("%j is %s, and back", (patch, text) => {
  expect(encodeState(state(patch))).toBe(text);
  expect(decode(text)).toEqual({ state: state(patch), panels: null, rejected: [] });
});

test.each([
  [["breakdown", "timeline"], "panels=breakdown.timeline"],
  [[["breakdown", "timeline"], ["kernel_types"]], "panels=*breakdown.timeline*kernel_types"],
])("panels %j are %s", (panels, text) => {
  expect(encodeState(INITIAL_STATE, panels)).toBe(text);
  expect(decode(text).panels).toEqual(panels);
});

const MADE_UP: [string, string[]][] = [
  ["view=5_5", ["view 5_5"]],
  ["view=1e3_9", ["view 1e3_9"]],
  ["view=2000_3000", ["view 2000_3000"]],
  ["window=9_4", ["window 9_4"]],
  ["window=99999999999999999_", ["window 99999999999999999_"]],
  ["ranks=0-99999999999999999", ["ranks 0-99999999999999999"]],
  ["ranks=0.9", ["ranks 0.9"]],
  ["ranks=__proto__", ["ranks __proto__"]],
  ["track=cpu", ["track cpu"]],
  ["rank_track=9_gpu/7", ["track 9,gpu/7"]],
  ["query=__import__('os').system('x') ;", ["query __import__('os').system('x') ;"]],
  ["event=9_1&events=0_-1", ["events 0_-1", "event 9_1"]],
  ["color=bound", ["color bound"]], // this job has no shapes
  ["scope=all&color=red&from=<img>", ["color red", "from <img>", "scope all"]],
  ["panels=nothing", ["panel nothing", "panels nothing"]],
  [`search=${"x".repeat(1001)}`, [`search ${"x".repeat(40)}`]],
  [`ranks=1&query=${"x".repeat(8000)}`, ["a state of more than 8 000 characters"]],
  ["other=1&%&%E0%A4=&view", ["view "]],
];

test.each(MADE_UP)("%s restores nothing", (text, rejected) => {
  expect(decode(text)).toEqual({ state: INITIAL_STATE, panels: null, rejected });
});

test("a job with shapes accepts the colours by what limits the work", () => {
  const scene = { ...SCENE, without_bounds: "" };
  expect(decodeState("color=bound", scene, OFFERED).state).toEqual(state({ color: "bound" }));
});

test("a view is limited to the job, and missing ranks of a range are ignored", () => {
  expect(decode("view=-999_500&ranks=3-8").state).toMatchObject({
    view: [-50, 500],
    selection: { ranks: [3, 7] },
  });
});

test("an address has a route and a state", () => {
  expect(splitFragment("#/dashboard/a%3Fb?view=1_2?")).toEqual(["#/dashboard/a%3Fb", "view=1_2?"]);
  expect(splitFragment("")).toEqual(["#", ""]);
});

test("a link has the visible window; a selection that is too large has no link", () => {
  const address = { base: "file:///r.html#", state: "", isPage: true, panels: OFFERED, reach: "" };
  const model = new LooseModel({ _address: address, panels: OFFERED });
  expect(linkOf(model, INITIAL_STATE, SCENE)).toBe("file:///r.html#?view=-50_1000");
  const ids = Array.from({ length: 2000 }, (_, id): [number, number] => [0, id]);
  expect(linkOf(model, state({ selection: { ...FULL_SELECTION, ids } }), SCENE)).toBeNull();
  expect(linkOf(new LooseModel({}), INITIAL_STATE, SCENE)).toBeNull();
});

test("an opened address replaces the state of the models, and states what is invalid", () => {
  const address = { base: "", state: "ranks=7&panels=breakdown.no", isPage: true, panels: OFFERED };
  const model = new LooseModel({ _address: address, panels: OFFERED, _about: { panels: OFFERED } });
  const shared = freshState();
  shared.set("search", "before");
  expect(applyAddress(model, shared, SCENE)).toContain("does not contain: panel no.");
  const restored = Object.fromEntries(STATE_KEYS.map((key) => [key, shared.get(key)]));
  expect(restored).toEqual(state({ selection: { ...FULL_SELECTION, ranks: [7] } }));
  expect(model.get("panels")).toEqual(["breakdown"]);
  expect(addressTrait(new LooseModel({}))).toBeNull();
});

test("a page follows its state, until another address is opened", () => {
  vi.useFakeTimers();
  const end = new AbortController();
  onTestFinished(() => {
    end.abort();
    vi.useRealTimers();
    history.replaceState(null, "", "#");
  });
  history.replaceState(null, "", "#/timeline/a");
  const panels = ["timeline"];
  const model = new LooseModel({ _address: pageAddress(panels, "here"), panels });
  const shared = freshState();
  const text = () => stateText(shared, SCENE.range, changedPanels(model));
  followAddress(model, addressChanges(model, shared), text, end.signal, () => undefined);
  shared.set("view", [-20, 900]);
  vi.runAllTimers();
  expect(location.hash).toBe("#/timeline/a?view=-20_900");
  shared.set("view", [0, 900]);
  history.replaceState(null, "", "#/dashboard/a");
  vi.runAllTimers();
  expect(location.hash).toBe("#/dashboard/a");
});
