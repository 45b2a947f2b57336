import { expect, test, vi } from "vitest";
import { eventNamed, openPage, recordedScene } from "../../test/recorded";
import { Watched } from "../../test/watched";
import { LaneIndex } from "../protocol/scene";
import type { Brief, Overlay, Slice } from "../protocol/source";
import type { TimelineContext } from "./context";
import { LaunchArrows } from "./launches";

const scene = recordedScene();
const source = new Watched();
const setOverlay = vi.fn<(overlay: Partial<Overlay>) => void>();
const changed = vi.fn();
const { signal } = new AbortController();
const arrows = new LaunchArrows(
  {
    source,
    lanes: new LaneIndex(scene),
    stage: { setOverlay },
    signal,
  } as unknown as TimelineContext,
  changed,
);
const sliceOf = (brief: Brief): Slice => ({ ...brief, flags: 0 });
const drawn = () => setOverlay.mock.lastCall?.[0].launches?.map(({ from, to }) => [from.id, to.id]);

test("the event under the pointer has its launch arrow, from either end, until it is left", async () => {
  const kernel = eventNamed("AllReduce");
  arrows.show(sliceOf(kernel));
  await vi.waitFor(() => expect(changed).toHaveBeenCalledTimes(1));
  expect(arrows.tooltipText).toMatch(/^launched by cudaLaunchKernelExC, 3\.14\sms before$/);
  const [[call = -1] = []] = drawn()!;
  expect(drawn()).toEqual([[call, kernel.id]]);
  arrows.show(null);
  expect(drawn()).toEqual([]);
  expect(arrows.tooltipText).toBe("");

  const { reply } = await openPage().ask("event", { rank: kernel.rank, id: call });
  arrows.show(sliceOf(reply.event));
  await vi.waitFor(() => expect(changed).toHaveBeenCalledTimes(2));
  expect(arrows.tooltipText).toBe("launches 1 device event");
  expect(drawn()).toEqual([[call, kernel.id]]);
  source.replies.set("launches", () => ({ call: null, kernels: [], count: 21 }));
  arrows.show(sliceOf(kernel));
  await vi.waitFor(() => expect(changed).toHaveBeenCalledTimes(3));
  expect(arrows.tooltipText).toBe("launches 21 device events: too many to draw arrows");
  expect(drawn()).toEqual([]);
});
