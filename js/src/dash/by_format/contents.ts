/** What is in the panels of BytePS's and MPI's files. */

import { h } from "../../app/dom";
import type { ChartSlot } from "../chart_slot";
import type { Content } from "../pane";
import { NameTable } from "../table";
import type { Brush, Chosen, PanelFrame } from "../types";
import { type Measure, MEASURES } from "./mpi_charts";
import { TABLES } from "./tables";

export interface FormatWays {
  signal: AbortSignal;
  slot(id: string): ChartSlot;
  brush(id: string, brush: Brush): void;
}

/** The content of a panel; null for a chart that needs nothing else. */
export function formatContent(id: string, ways: FormatWays): Content {
  const look = TABLES[id];
  if (look === undefined) {
    return id === "mpi_sizes" ? new SizesView(ways.slot(id)) : ways.slot(id);
  }
  let frame: PanelFrame | null = null;
  const table = new NameTable(
    look,
    (names) => ways.brush(id, rowsAreRanks(id) ? { ranks: ranksOf(frame, names) } : { names }),
    ways.signal,
  );
  return {
    el: table.el,
    hasTitle: true,
    show: (shown, chosen) => {
      frame = shown;
      table.show(shown, chosen);
    },
  };
}

/** Rows of these stand for files, not for names of events. */
function rowsAreRanks(id: string): boolean {
  return id === "byteps_requests" || id === "mpi_hosts";
}

function ranksOf(frame: PanelFrame | null, names: readonly string[] | null): number[] | null {
  if (frame === null || names === null) return null;
  const found = new Set<number>();
  frame.columns.name?.forEach((name, row) => {
    if (!names.includes(String(name))) return;
    const keys = frame.columns.keys?.[row];
    const rank = frame.columns.rank?.[row];
    if (typeof rank === "number") found.add(rank);
    if (typeof keys === "string" && keys !== "")
      keys
        .split(",")
        .map(Number)
        .forEach((key) => found.add(key));
  });
  return found.size === 0 ? null : [...found];
}

const SAID: Record<Measure, string> = { calls: "calls", time: "time", bytes: "bytes" };

/** Message sizes, and what they are shaded by, chosen beside the title. */
class SizesView implements Content {
  readonly el: HTMLElement;
  private measure: Measure = "calls";
  private shown: { frame: PanelFrame; chosen: Chosen } | null = null;
  private drawn: { from: PanelFrame; measure: Measure; frame: PanelFrame } | null = null;

  constructor(private readonly slot: ChartSlot) {
    const choice = h(
      "select",
      {
        class: "hta-input hta-heat-metric",
        "aria-label": "What message sizes are shaded by",
        on: {
          change: () => {
            this.measure = choice.value as Measure;
            if (this.shown !== null) this.show(this.shown.frame, this.shown.chosen);
          },
        },
      },
      ...MEASURES.map((id) => h("option", { value: id }, SAID[id])),
    );
    this.el = h("div", { class: "hta-heat" }, choice, slot.el);
  }

  get hasTitle(): boolean {
    return this.slot.hasTitle;
  }

  show(frame: PanelFrame, chosen: Chosen): void {
    this.shown = { frame, chosen };
    const { measure } = this;
    if (this.drawn?.from !== frame || this.drawn.measure !== measure) {
      const told = { ...frame, attrs: { ...frame.attrs, measure } };
      this.drawn = { from: frame, measure, frame: told };
    }
    this.slot.show(this.drawn.frame, chosen);
  }
}
