/** The lanes for those who do not see them: a grid off screen, of the rows in sight and the event. */

import type { Brief, RowInfo } from "../contract";
import { formatDuration, formatTime, plural, rangesText } from "../draw/format";
import type { Context } from "./context";
import { aria, fill, h } from "./dom";

const ROWS_SPOKEN = 60;
let grids = 0;

function whoOf({ rank, like, badge }: RowInfo): string {
  if (like === undefined) return `rank ${rank}${badge === "fold" ? ", like ranks unfolded" : ""}`;
  return `ranks ${rangesText(like)}, folded into rank ${rank}`;
}

export class AccessGrid {
  readonly el: HTMLElement;
  private readonly id = `hta-grid-${(grids += 1)}`;

  constructor(private readonly ctx: Context) {
    this.el = h("div", { class: "hta-hidden", role: "grid", "aria-label": "Ranks and tracks" });
  }

  /** Rows as they lie on the screen, the selected event as a cell of its row. */
  print(selected: Brief | null, pinned: readonly string[]): void {
    const rows = this.ctx.stage.rows().slice(0, ROWS_SPOKEN);
    const at = selected === null ? -1 : this.rowOf(rows, selected);
    aria(this.el, "rowcount", this.ctx.stage.rows().length);
    fill(
      this.el,
      ...rows.map((row, index) => this.row(row, pinned, index === at ? selected : null)),
    );
    // An event whose row is folded away is still what the keys act on.
    if (selected !== null && at < 0) this.el.append(h("div", { role: "row" }, this.cell(selected)));
    aria(this.ctx.root, "activedescendant", selected === null ? null : `${this.id}-cell`);
  }

  private rowOf(rows: readonly RowInfo[], brief: Brief): number {
    const track = this.ctx.lanes.at(brief.lane)?.track?.key;
    const exact = rows.findIndex((row) => row.rank === brief.rank && row.track?.key === track);
    return exact >= 0 ? exact : rows.findIndex((row) => row.rank === brief.rank);
  }

  private row(row: RowInfo, pinned: readonly string[], selected: Brief | null): HTMLElement {
    const name =
      row.track === null
        ? `${whoOf(row)}, ${row.open ? "open" : "closed"}`
        : `rank ${row.rank}, ${row.track.label}, ${plural(row.track.events, "event")}`;
    const key = row.track === null ? String(row.rank) : `${row.rank}/${row.track.key}`;
    return h(
      "div",
      { role: "row" },
      h("span", { role: "rowheader" }, pinned.includes(key) ? `${name}, pinned` : name),
      selected !== null && this.cell(selected),
    );
  }

  private cell(brief: Brief): HTMLElement {
    const words = `${brief.short}, ${brief.kind}, ${formatDuration(brief.dur)}, starts at ${formatTime(brief.start)}`;
    return h("span", { role: "gridcell", id: `${this.id}-cell`, "aria-selected": "true" }, words);
  }
}
