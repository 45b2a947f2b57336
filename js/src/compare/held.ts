/** Opens what a page holds of a comparison: a saved file, or what a kernel sent while it lived. */

import type { Scene, Source } from "../contract";
import { type Blocks, readBlock } from "../page/bytes";
import type { PageDocument } from "../page/document";
import { download } from "../page/download";
import { PageSource } from "../page/source";
import { type PairsHeader, PairSource } from "./page_source";

/** What the page of two runs says of itself. */
export interface DiffDocument {
  widget: "diff";
  traits: Record<string, unknown>;
  pairs?: PairsHeader;
}

export interface Opened {
  traits: Record<string, unknown>;
  scenes: Scene[];
  states: Record<string, unknown>[];
  source: Source;
}

/** Each run has its own blocks, under its own name. */
export async function openHeld(blocks: Blocks): Promise<Opened> {
  const readJson = async (name: string): Promise<unknown> =>
    JSON.parse(new TextDecoder().decode(await readBlock(blocks, name)));
  const page = (await readJson("document")) as DiffDocument;
  const runs = await Promise.all(
    ["before", "after"].map(async (side) => {
      const own = (await readJson(`${side}-document`)) as PageDocument;
      const named = (name: string): string => `${side}-${name}`;
      const held: Blocks = {
        text: (name) => blocks.text(named(name)),
        ...(blocks.bytes && { bytes: (name: string) => blocks.bytes!(named(name)) }),
      };
      return { own, source: new PageSource(own, held, download) };
    }),
  );
  const source = new PairSource(
    (await readJson("frames")) as Record<string, unknown>,
    page.pairs ?? null,
    () => readBlock(blocks, "pairs"),
    [runs[0]!.source, runs[1]!.source],
    async (block) => (await readJson(block)) as Record<string, unknown>,
  );
  if (page.pairs !== undefined) {
    for (const side of [0, 1] as const) {
      runs[side]!.source.classify((rank, events) => source.classesOf(side, rank, events));
    }
  }
  return {
    traits: page.traits,
    scenes: runs.map(({ own }) => own.scene),
    states: runs.map(({ own }) => own.state as Record<string, unknown>),
    source,
  };
}
