/** Two runs of two steps each, as the kernel sends them to a page. */

import { Context, type DiffOptions } from "../src/compare/context";
import type { About } from "../src/compare/frames";
import type { Frame, Source } from "../src/protocol/source";
import { LooseModel } from "./model";

export function frame(columns: Frame["columns"], attrs: Frame["attrs"] = {}): Frame {
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
  median: null,
  whose: "",
};

const ABOUT: About = {
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

/** State of a comparison whose frames come from `source`. */
export function contextOf(source: Partial<Source>, about: Partial<About> = {}): Context {
  const model = new LooseModel({ _about: { ...ABOUT, ...about } });
  const { signal } = new AbortController();
  const options: Partial<DiffOptions> = { model, source: source as Source, signal, live: null };
  return new Context(options as DiffOptions);
}
