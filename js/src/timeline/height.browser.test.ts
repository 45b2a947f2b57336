/** Heights of rows: the lower edge, and lanes that are empty in view. */

import { expect, test } from "vitest";
import { opened, type View } from "../../test/app_view";
import { eventsOf } from "../../test/recorded";

const heightOf = (view: View) => Math.round(view.stage.getBoundingClientRect().height);

test("keys move the lower edge, and no room is left blank below the rows", async () => {
  const view = await opened();
  // Three folded ranks need less than the 400 px that are requested.
  const all = heightOf(view);
  expect(all).toBeLessThan(400);
  const edge = view.by("separator", "Height of the rows");
  expect(edge.getAttribute("aria-valuenow")).toBe(String(all));
  edge.focus();
  const press = (key: string) =>
    edge.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  press("ArrowUp");
  await expect.poll(() => heightOf(view)).toBe(all - 24);
  press("Home");
  await expect.poll(() => heightOf(view)).toBe(120);
  press("End");
  press("ArrowDown");
  await expect.poll(() => heightOf(view)).toBeLessThanOrEqual(all);
});

test("lanes that are empty in view become lines, counted, and E gives them their height", async () => {
  const view = await opened();
  view.root.focus();
  view.press("g");
  const deepest = view.scene.ranks[0]!.tracks.reduce((a, b) => (b.lanes > a.lanes ? b : a));
  const [first] = eventsOf(deepest.lane0 + deepest.lanes - 1);
  // Before the first event of that depth.
  view.state.set("view", [0, first!.start - 1]);
  await expect.poll(() => view.text(".hta-said")).toMatch(/ empty lanes? drawn thin: E/);
  view.press("e");
  await expect.poll(() => view.text(".hta-said")).not.toContain("drawn thin");
});
