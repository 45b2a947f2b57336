/** The lower edge of the rows. */

import { expect, test } from "vitest";
import { openTimeline, type View } from "../../test/app_view";

const heightOf = (view: View) => Math.round(view.stage.getBoundingClientRect().height);

test("keys move the lower edge, and no space below the rows is blank", async () => {
  const view = await openTimeline();
  // Three folded ranks need less than the requested 400 px.
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
