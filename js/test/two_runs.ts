/** Two runs of two steps each, as the kernel sends them to a page; for tests. */

import { DiffContext, type DiffOptions } from "../src/compare/context";
import type { DiffFacts } from "../src/compare/frames";
import type { PanelFrame, Source } from "../src/protocol/source";
import { LooseModel } from "./model";

export function frame(columns: PanelFrame["columns"], attrs: PanelFrame["attrs"] = {}): PanelFrame {
  return { rows: Object.values(columns)[0]?.length ?? 0, columns, attrs };
}

/** Two steps: 100 and 200 long before, 150 and 120 after; the second ones start at 200 and 1150. */
export const slots = frame({
  slot: [0, 1],
  before_label: ["ProfilerStep#7", "ProfilerStep#8"],
  after_label: ["ProfilerStep#7", "ProfilerStep#8"],
  before_start_ns: [100, 200],
  before_end_ns: [200, 400],
  after_start_ns: [1000, 1150],
  after_end_ns: [1150, 1270],
  common_start_ns: [100, 250],
  common_end_ns: [250, 450],
  delta_ns: [50, -80],
});

/** The data of the strip of steps of these runs. */
export const strip = {
  labels: ["a", "b"] as [string, string],
  slots,
  lanes: frame({ slot: [] }),
  totals: [300, 270] as [number, number],
  isChange: true,
  ranksText: "",
};

const RUN = { range: [0, 1270], ranks: [] };
export const ABOUT: DiffFacts = {
  labels: ["a", "b"],
  facts: "",
  cautions: [],
  conditions: "",
  rank_pairs: [[0, 0]],
  by_rank_means: false,
  steps: 2,
  matched: "",
  all_matched: true,
  kind_words: {},
  has_events: true,
  has_device: true,
  is_small: false,
  tables: [],
};

/** Returns frames and records requests; a request for several frames returns `several`. */
export class FrameSource implements Source {
  readonly status = "live";
  readonly asked: string[] = [];

  constructor(
    private readonly frameOf: (name: string) => PanelFrame | undefined,
    private readonly several: Record<string, PanelFrame> | null = null,
  ) {}

  async ask(op: string, request: Record<string, unknown>): Promise<never> {
    const names = op === "frames" ? (request.names as string[]) : [String(request.name)];
    this.asked.push(`${op} ${names.join(" ")}`);
    const several = this.several === null ? undefined : { frames: this.several };
    const reply = op === "frames" ? several : this.frameOf(names[0]!);
    if (reply === undefined) throw new Error(`no ${names.join(" ")}`);
    return { reply, buffer: null } as never;
  }
}

/** The context of a comparison whose frames come from `source`. */
export function contextOf(
  about: Partial<DiffFacts> = {},
  source: Source = new FrameSource(() => undefined),
): DiffContext {
  const model = new LooseModel({ _about: { ...ABOUT, ...about } });
  const { signal } = new AbortController();
  return new DiffContext({
    model,
    scenes: [RUN, RUN],
    source,
    signal,
    live: null,
  } as unknown as DiffOptions);
}
