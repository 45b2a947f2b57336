/** Waits of ranks in the whole view: status line, legend and event details. */

import { expect, test } from "vitest";
import { openTimeline, pick, pointer, tap } from "../../test/app_view";
import { eventsOf, LATE } from "../../test/recorded";

test("the status line names the rank that others wait for, the legend explains the hatch", async () => {
  const view = await openTimeline();
  await expect
    .poll(() => view.text(".hta-said"))
    .toMatch(/2 ranks wait for rank 2: \d+ % of each GPU span\./);
  const all = (): HTMLElement[] => view.all(".hta-wait-key");
  await expect.poll(() => all().length).toBe(2);
  const keys = all();
  expect(keys[0]!.innerText).toMatch(/^\s*waiting\s+[\d<.\s]*%\s*$/);
  expect(keys[1]!.innerText.trim()).toBe("late");
  expect(keys[0]!.querySelector(".hta-share")!.textContent).toMatch(/^\d.*%$/);
  // Waiting is a style of communication, not a kind that could be dimmed.
  expect(keys.every((key) => !(key instanceof HTMLButtonElement))).toBe(true);
});

test("the line before a late kernel says how late it is; a click selects the kernel", async () => {
  const view = await openTimeline();
  const { lane, late } = view.scene.ranks[LATE]!.summary[1]!;
  const kernel = eventsOf(lane)[5]!;
  view.state.set("view", [kernel.start - 3e6, kernel.start + 1e6]);
  const { stage } = view.app.ctx;
  const at = (): [number, number] => [
    stage.xOf(kernel.start - 3e5),
    stage.rows().find(({ rank }) => rank === LATE)!.top + 34,
  ];
  expect(late).toBeGreaterThan(0);
  await expect
    .poll(() => {
      pointer(view, "pointermove", ...at());
      return view.text(".hta-tooltip");
    })
    .toMatch(/^1\.39\sms late\s*rank 2 · AllReduce/);
  tap(view, ...at());
  await expect.poll(() => view.state.get("selected_event")).toEqual([LATE, kernel.id]);
});

test("without lanes of waits no text mentions waits", async () => {
  const view = await openTimeline(({ scene }) => {
    for (const { summary, tracks } of scene.ranks) {
      for (const row of [...summary, ...tracks]) delete row.wait;
    }
  });
  expect(view.root.querySelector(".hta-wait-key")).toBeNull();
  expect(view.text(".hta-said")).not.toContain("wait");
});

test("a collective event has a button in its details that goes to another rank", async () => {
  const view = await openTimeline();
  pick(view, "AllReduce");
  await expect.poll(() => view.text(".hta-collective h3")).toBe("allreduce on 3 ranks");
  expect(view.text(".hta-said")).toContain("Collective 1 of 12");
  expect(view.text(".hta-said")).toContain("including 466 µs waiting for rank 2.");
  view.all(".hta-collective .hta-link")[1]!.click();
  await expect.poll(() => view.state.get("selected_event")).toMatchObject({ 0: 1 });
});
