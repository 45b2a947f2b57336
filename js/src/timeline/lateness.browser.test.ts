/** Waits of ranks in the whole view: status line, legend and event details. */

import { expect, test } from "vitest";
import { opened, pick } from "../../test/app_view";

test("the line names the rank that others wait for, the legend explains the hatch", async () => {
  const view = await opened();
  await expect
    .poll(() => view.text(".hta-said"))
    .toMatch(/2 ranks wait for rank 2: \d+ % of each GPU span\./);
  const all = (): HTMLElement[] => view.all(".hta-key-only");
  await expect.poll(() => all().length).toBe(2);
  const keys = all();
  expect(keys[0]!.innerText).toMatch(/^\s*waiting\s+[\d<.\s]*%\s*$/);
  expect(keys[1]!.innerText.trim()).toBe("late");
  expect(keys[0]!.querySelector(".hta-share")!.textContent).toMatch(/^\d.*%$/);
  // Waiting is a look of communication, not a kind that could be dimmed.
  expect(keys.every((key) => !(key instanceof HTMLButtonElement))).toBe(true);
});

test("without lanes of waits nothing is said of them", async () => {
  const view = await opened(({ scene }) => {
    for (const { summary, tracks } of scene.ranks) {
      for (const row of [...summary, ...tracks]) delete row.wait;
    }
  });
  expect(view.root.querySelector(".hta-key-only")).toBeNull();
  expect(view.text(".hta-said")).not.toContain("wait");
});

test("a collective event has a button in its details that goes to another rank", async () => {
  const view = await opened();
  pick(view, "AllReduce");
  await expect.poll(() => view.text(".hta-collective h3")).toBe("allreduce on 3 ranks");
  expect(view.text(".hta-said")).toContain("Collective 1 of 12");
  expect(view.text(".hta-said")).toContain("including 466 µs waiting for rank 2.");
  view.all(".hta-collective .hta-link")[1]!.click();
  await expect.poll(() => view.state.get("selected_event")).toMatchObject({ 0: 1 });
});
