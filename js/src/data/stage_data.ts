/** Everything that the stage asks for: tiles, totals of the view, the minimap, marks. */

import type { Overlay, Scene, SelectionJson, Source, Span } from "../contract";
import {
  decodeLateness,
  decodeMarks,
  decodeMinimap,
  decodeStats,
  type Lateness,
  type Marks,
  type Minimap,
  type Stats,
} from "../protocol/decode";
import { decodeRibbon, type Ribbon } from "../protocol/ribbon";
import { Latest } from "./latest";
import { TileLoader } from "./tile_loader";
import type { Sight } from "./tile_plan";
import { TileStore } from "./tile_store";
import { LaneWindows } from "./windows";

const STATS_WAIT_MS = 90;
const MARKS_WAIT_MS = 90;
const MINIMAP_WAIT_MS = 20;
export const MOST_BINS = 4096;

/** Marks as they were asked for: bins of a window. */
export interface PlacedMarks {
  marks: Marks;
  start: number;
  end: number;
  bins: number;
}

export type DataPart = "tiles" | "stats" | "minimap" | "marks" | "lateness" | "ribbon";

export class StageData {
  readonly store: TileStore;
  readonly windows: LaneWindows;
  private readonly loader: TileLoader;
  private readonly statsAsk: Latest<Stats>;
  private readonly minimapAsk: Latest<Minimap>;
  private readonly searchAsk: Latest<PlacedMarks>;
  private readonly chosenAsk: Latest<PlacedMarks>;
  private readonly latenessAsk: Latest<Lateness>;
  private readonly ribbonAsk: Latest<Ribbon>;
  private readonly hasDevice: boolean;
  private readonly hasCollectives: boolean;

  constructor(scene: Scene, source: Source, onChange: (part: DataPart) => void) {
    this.store = new TileStore(scene.lanes);
    this.windows = new LaneWindows(this.store);
    this.loader = new TileLoader(source, this.store, () => onChange("tiles"));
    this.hasDevice = scene.ranks.some(({ summary }) => summary.some(({ role }) => role !== "cpu"));
    this.statsAsk = new Latest(
      source,
      "stats",
      STATS_WAIT_MS,
      (reply, { start, end }) => decodeStats(reply, start as number, end as number),
      () => onChange("stats"),
    );
    this.hasCollectives = scene.ranks.some(({ summary }) =>
      summary.some(({ wait }) => wait !== undefined),
    );
    this.latenessAsk = new Latest(
      source,
      "lateness",
      STATS_WAIT_MS,
      (reply, { start, end }) => decodeLateness(reply, start as number, end as number),
      () => onChange("lateness"),
    );
    this.ribbonAsk = new Latest(
      source,
      "ribbon",
      STATS_WAIT_MS,
      (reply, { start, end, bins }) =>
        decodeRibbon(reply, { start: start as number, end: end as number, bins: bins as number }),
      () => onChange("ribbon"),
    );
    this.minimapAsk = new Latest(source, "minimap", MINIMAP_WAIT_MS, decodeMinimap, () =>
      onChange("minimap"),
    );
    const marks = () =>
      new Latest<PlacedMarks>(
        source,
        "marks",
        MARKS_WAIT_MS,
        (reply, { start, end, bins }) => ({
          marks: decodeMarks(reply),
          start: start as number,
          end: end as number,
          bins: bins as number,
        }),
        () => onChange("marks"),
      );
    this.searchAsk = marks();
    this.chosenAsk = marks();
  }

  get stats(): Stats | null {
    return this.statsAsk.value;
  }

  /** Null until the collectives are matched. */
  get lateness(): Lateness | null {
    return this.latenessAsk.value;
  }

  /** Who comes late to collectives; null until that is known. */
  get ribbon(): Ribbon | null {
    return this.ribbonAsk.value;
  }

  get minimap(): Minimap | null {
    return this.minimapAsk.value;
  }

  get searched(): PlacedMarks | null {
    return this.searchAsk.value;
  }

  get chosen(): PlacedMarks | null {
    return this.chosenAsk.value;
  }

  /** The last failure of a tile request, null after a success. */
  get error(): Error | null {
    return this.loader.error;
  }

  /**
   * Ask for what the picture needs. `width` is that of the lanes in CSS px, `over` lanes drawn over
   * those in sight.
   */
  show(
    sight: Sight,
    over: readonly number[],
    target: Span,
    width: number,
    overlay: Overlay,
    ribbons: { bins: number; ranks: readonly number[] } | null = null,
  ): void {
    // Tiles of where an animation ends, not of where it passes: one request instead of five.
    const lanes = this.lateness === null ? sight.lanes : [...sight.lanes, ...over];
    this.loader.show({ ...sight, lanes, view: target, resolution: scaled(sight, target) });
    const window = { start: Math.floor(sight.view[0]), end: Math.ceil(sight.view[1]) };
    if (this.hasDevice) this.statsAsk.ask(window);
    // Matching the collectives takes a while the first time: what is drawn without it comes first.
    if (this.hasCollectives && (this.stats !== null || this.lateness !== null)) {
      this.latenessAsk.ask(window);
    }
    if (ribbons !== null && this.lateness !== null) {
      const ranks = [...ribbons.ranks].sort((a, b) => a - b);
      this.ribbonAsk.ask({ ...window, bins: Math.min(MOST_BINS, ribbons.bins), ranks });
    }
    const bins = Math.max(1, Math.min(MOST_BINS, Math.round(width)));
    this.minimapAsk.ask({ bins });
    const marks = { ...window, bins, lanes: [...sight.lanes].sort((a, b) => a - b) };
    if (overlay.search === "") this.searchAsk.clear();
    else this.searchAsk.ask({ text: overlay.search, ...marks });
    if (picksEvents(overlay.selection)) {
      this.chosenAsk.ask({ selection: overlay.selection, ...marks });
    } else {
      this.chosenAsk.clear();
    }
  }

  /** What has failed is asked for again by the next `show`. */
  retry(): void {
    for (const ask of this.asks) ask.retry();
  }

  /** Ask for nothing more until the next `show`. */
  rest(): void {
    this.loader.rest();
  }

  destroy(): void {
    this.loader.destroy();
    for (const ask of this.asks) ask.destroy();
  }

  private get asks(): readonly Pick<Latest<never>, "retry" | "destroy">[] {
    const { statsAsk, minimapAsk, searchAsk, chosenAsk, latenessAsk, ribbonAsk } = this;
    return [statsAsk, minimapAsk, searchAsk, chosenAsk, latenessAsk, ribbonAsk];
  }
}

function scaled(sight: Sight, target: Span): number {
  return (sight.resolution * (target[1] - target[0])) / (sight.view[1] - sight.view[0]);
}

/** A selection by window, ranks and tracks is seen as an area; one of events needs marks. */
function picksEvents(selection: SelectionJson | null): boolean {
  return selection !== null && (selection.query !== null || selection.ids !== null);
}
