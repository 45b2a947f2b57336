/** A small job as in a saved page, for tests; `make recorded` writes it. */

import { type Blocks, readBlock } from "../src/engine/columns";
import type { PageDocument } from "../src/engine/document";
import { PageJob } from "../src/engine/job";
import type { RankTrace } from "../src/engine/rank";
import { PageSource } from "../src/engine/source";
import type { Brief, Scene } from "../src/protocol/source";
import recorded from "./recorded.json";

const texts: Record<string, string> = recorded;
const blocks: Blocks = { text: (name) => texts[name] ?? null };
const json = new TextDecoder().decode(await readBlock(blocks, "document"));

/** The rank that arrives last at every collective; there are ranks 0 to 2. */
export const LATE = 2;

/** A copy that a test may change. */
export const recordedPage = (): PageDocument => JSON.parse(json) as PageDocument;
export const recordedScene = (): Scene => recordedPage().scene;

export function openPage(page: PageDocument = recordedPage()): PageSource {
  return new PageSource(page, blocks, () => undefined);
}

/** A scene with copies of the first rank and two of its threads, alternating between two hosts. */
export function sceneOf(ranks: number): Scene {
  const { lanes, ranks: recordedRanks, ...scene } = recordedScene();
  const of = recordedRanks[0]!;
  const each = lanes / recordedRanks.length;
  return {
    ...scene,
    lanes: each * ranks,
    ranks: Array.from({ length: ranks }, (_, rank) => ({
      ...of,
      rank,
      label: `rank ${rank}`,
      host: rank % 2 === 0 ? "node-a" : "node-b",
      summary: of.summary.slice(0, 4).map((row) => ({ ...row, lane: row.lane + rank * each })),
      tracks: of.tracks.map((track) => ({ ...track, lane0: track.lane0 + rank * each })),
    })),
  };
}

/** A job whose ranks are all decompressed. */
export const recordedJob = new PageJob(recordedPage(), blocks);
const ranks = (await recordedJob.loadRanks()) as RankTrace[];

/** Events of a lane, in order of start. */
export function eventsOf(lane: number): Brief[] {
  const rank = ranks[recordedJob.rankOfLane(lane)]!;
  const rows = rank.tableOfContent(rank.laneContent(lane));
  return Array.from(rank.laneRows(lane), (row) => rank.brief(rows, row));
}

/** The first event with a text in its name. */
export function eventNamed(text: string): Brief {
  for (const rank of ranks) {
    const { events } = rank;
    for (let row = 0; row < events.start.length; row += 1) {
      const brief = rank.brief(events, row);
      if (brief.short.includes(text)) return brief;
    }
  }
  throw new Error(`no event is named ${text}`);
}
