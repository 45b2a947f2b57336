/** Waits of ranks in the whole view: status line, legend and event details. */

import { expect, test } from "vitest";
import { addWaits } from "../../dev/fake_waits";
import { mount, pick, ready } from "../../test/app_view";

const waiting = () => mount((job, source) => void addWaits(job, source));

test("the line names the rank that others wait for, the legend explains the hatch", async () => {
  const view = waiting();
  await ready(view);
  await expect
    .poll(() => view.text(".hta-said"))
    .toMatch(/2 ranks wait \d+ ms each \(\d+ %\) on the stream for rank 2\./);
  const keys = [...view.root.querySelectorAll<HTMLElement>(".hta-key-only")];
  await expect.poll(() => keys.map((key) => key.dataset.there)).toEqual(["yes", "yes"]);
  // One name of each is visible, the long one if it fits.
  expect(keys[0]!.innerText).toMatch(/^\s*(waiting on the stream|waiting)\s+[\d<.\s]*%\s*$/);
  expect(keys[1]!.innerText.trim()).toBe("late");
  expect(keys[0]!.querySelector(".hta-share")!.textContent).toMatch(/^\d.*%$/);
  // Waiting is a look of communication, not a kind that could be dimmed.
  expect(keys.every((key) => !(key instanceof HTMLButtonElement))).toBe(true);
});

test("without lanes of waits nothing is said of them", async () => {
  const view = mount();
  await ready(view);
  const keys = [...view.root.querySelectorAll<HTMLElement>(".hta-key-only")];
  expect(keys.every((key) => key.hidden)).toBe(true);
  expect(view.text(".hta-said")).not.toContain("wait");
});

test("a collective event has a button in its details that goes to another rank", async () => {
  const view = waiting();
  const ask = view.source.ask.bind(view.source);
  const own = view.source.first("AllReduce");
  view.source.ask = async (op, request, signal) => {
    if (op !== "collective") return ask(op, request, signal);
    view.source.asked.push({ op, request });
    await Promise.resolve();
    const ranks = [0, 1, 2].map((rank) => ({
      rank,
      id: own.id,
      arrival: rank * 1e6,
      wait: (2 - rank) * 1e6,
      transfer: 1e6,
    }));
    const collective = {
      number: 1, of: 9, name: "allreduce", group: "0", size: 4096, algbw: 1, busbw: 1.5,
      last_rank: 2, late: 1.5e6, ranks,
    }; // prettier-ignore
    return { reply: { collective }, buffer: null };
  };
  await ready(view);
  pick(view, "AllReduce");
  await expect.poll(() => view.text(".hta-collective h3")).toBe("allreduce on 3 ranks");
  expect(view.text(".hta-said")).toContain("Collective 1 of 9");
  expect(view.text(".hta-said")).toContain("2.00 ms of it waiting for rank 2.");
  const { request } = view.source.asked.find(({ op }) => op === "collective")!;
  expect(request).toMatchObject({ rank: own.rank, id: own.id });
  const before = view.source.asked.length;
  view.find(".hta-collective .hta-link").click();
  await expect
    .poll(() => view.source.asked.slice(before).some(({ op }) => op === "event"))
    .toBe(true);
});
