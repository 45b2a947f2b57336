/** Folding of similar ranks in the whole view; `tests/e2e` tests the button and the key. */

import { expect, test } from "vitest";
import { openTimeline, pointer, tap, type View } from "../../test/app_view";
import { eventsOf } from "../../test/recorded";

async function folded(): Promise<View> {
  const view = await openTimeline();
  view.root.focus();
  view.press("u");
  await expect.poll(() => rows(view)).toEqual(["ranks 0, 1, folded into rank 0", "rank 2"]);
  return view;
}

/** Return the row headers as read by screen readers. */
function rows(view: View): string[] {
  return [...view.root.querySelectorAll("[role=rowheader]")].map((row) =>
    (row.textContent ?? "").replace(/, (closed|open)$/, ""),
  );
}
const said = (view: View): string => view.text(".hta-said");

test("the widget may fold as well, and the line below states the search for similar ranks", async () => {
  const view = await openTimeline();
  view.source.held = [];
  view.app.folding.set(true, false);
  await expect.poll(() => said(view)).toContain("Finding similar ranks");
  expect(rows(view)).toHaveLength(3);
  view.source.release();
  await expect.poll(() => said(view)).toContain("2 of 3 ranks shown");
  view.app.folding.set(false, false);
  await expect.poll(() => rows(view)).toHaveLength(3);
});

test("the badge unfolds the ranks of a row, and folds them again", async () => {
  const view = await folded();
  expect(view.find(".hta-fold").getAttribute("aria-pressed")).toBe("true");
  const click = (x: number): void => {
    pointer(view, "pointermove", x, 116);
    tap(view, x, 116);
  };
  click(16);
  await expect
    .poll(() => rows(view))
    .toEqual(["rank 0, similar ranks unfolded", "rank 1", "rank 2"]);
  click(16);
  await expect.poll(() => rows(view)).toHaveLength(2);
  // A click next to the badge opens the tracks of the row.
  click(60);
  await expect.poll(() => rows(view).length).toBeGreaterThan(2);
  expect(view.source.asked.filter(({ op }) => op === "clusters")).toHaveLength(1);
});

test("Shift U unfolds the row under the pointer, or asks the user to point at one", async () => {
  const view = await folded();
  view.press("U", { shiftKey: true });
  await expect.poll(() => said(view)).toContain("Point at a row of several ranks");
  pointer(view, "pointermove", 60, 116);
  await expect.poll(() => view.find(".hta-tooltip").hidden).toBe(false);
  view.press("U", { shiftKey: true });
  await expect.poll(() => rows(view)).toHaveLength(3);
});

test("a selected event of a folded rank shows its rank while it is selected", async () => {
  const view = await folded();
  view.state.set("search", "AllReduce_Sum");
  await expect.poll(() => view.text(".hta-count")).toBe("36");
  const [first] = eventsOf(view.scene.ranks[2]!.summary[1]!.lane);
  view.state.set("selected_event", [2, first!.id]);
  await expect.poll(() => view.text(".hta-details h3")).toContain("AllReduce");
  view.press("Enter", { shiftKey: true });
  // The hit before the first one on rank 2 is the last one on rank 1.
  await expect.poll(() => view.state.get("selected_event")).toMatchObject({ 0: 1 });
  await expect.poll(() => rows(view)).toEqual(["rank 0", "rank 1", "rank 2"]);
  view.state.set("selected_event", null);
  await expect.poll(() => rows(view)).toHaveLength(2);
});

test("a page without data on similar ranks does not offer to fold them", async () => {
  const view = await openTimeline((page, source) => {
    page.alike = null;
    source.become("none");
  });
  await expect.poll(() => view.source.asked.some(({ op }) => op === "clusters")).toBe(true);
  await expect.poll(() => view.find(".hta-fold").hidden).toBe(true);
  view.root.focus();
  expect(view.press("u").defaultPrevented).toBe(false);
  expect(view.root.querySelector(".hta-strip:not([hidden])")).toBeNull();
});
