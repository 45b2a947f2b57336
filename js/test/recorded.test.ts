import { expect, test } from "vitest";
import { readScene } from "../src/protocol/scene";
import { LATE, openPage, recordedPage } from "./recorded";

test("the recorded job is a page of today's version, with a late rank, problems and flows", async () => {
  const { version, scene } = recordedPage();
  expect(version).toBe(3);
  expect(readScene(scene)).toMatchObject({ version: 1, truth: { problems: [{ rank: 1 }] } });
  const page = openPage();
  const [start, end] = scene.range;
  const { reply } = await page.ask("lateness", { start, end });
  expect(reply.late).toEqual([LATE]);
  const find = { text: "cudaLaunchKernel", from: null, direction: 1 };
  const { brief } = (await page.ask("find", find)).reply as { brief: { rank: number; id: number } };
  expect((await page.ask("event", brief)).reply.flows).toHaveLength(1);
});
