/** The lanes for screen readers: an off-screen grid of visible rows and the selected event. */

import { ranksText } from "../facts/rank_text";
import type { ReadonlySignal } from "@preact/signals";
import { useLayoutEffect, useMemo } from "preact/hooks";
import type { Brief, RowInfo } from "../protocol/source";
import { aria } from "../ui/dom";
import { formatDuration, formatTime, plural } from "../ui/formats";
import type { TimelineContext } from "./context";
import { pinName } from "./rows";

const MAX_GRID_ROWS = 60;
let grids = 0;

export interface AccessGridContent {
  rows: readonly RowInfo[];
  selected: Brief | null;
  pinned: readonly string[];
}

export function AccessGrid({
  ctx,
  content,
}: {
  ctx: TimelineContext;
  content: ReadonlySignal<AccessGridContent>;
}) {
  const { rows, selected, pinned } = content.value;
  const selectedIndex = selected === null ? -1 : rowIndexOf(ctx, rows, selected);
  const id = useMemo(() => `hta-grid-${(grids += 1)}`, []);
  useLayoutEffect(() => aria(ctx.root, "activedescendant", selected === null ? null : id));
  const cell = selected !== null && (
    <span role="gridcell" id={id} aria-selected="true">
      {eventName(selected)}
    </span>
  );
  return (
    <div class="hta-hidden" role="grid" aria-label="Ranks and tracks" aria-rowcount={rows.length}>
      {rows.slice(0, MAX_GRID_ROWS).map((row, index) => (
        <div key={pinName(row)} role="row">
          <span role="rowheader">
            {rowName(row)}
            {pinned.includes(pinName(row)) && ", pinned"}
          </span>
          {index === selectedIndex && cell}
        </div>
      ))}
      {/* Keys act on the selected event even if its row is folded away or not listed. */}
      {selected !== null && (selectedIndex < 0 || selectedIndex >= MAX_GRID_ROWS) && (
        <div role="row">{cell}</div>
      )}
    </div>
  );
}

/** Return the row index of an event's track or, if the rank is folded, of the rank. */
function rowIndexOf(ctx: TimelineContext, rows: readonly RowInfo[], { rank, lane }: Brief): number {
  const track = ctx.lanes.locate(lane)?.track?.key;
  const exact = rows.findIndex((row) => row.rank === rank && row.track?.key === track);
  return exact >= 0 ? exact : rows.findIndex((row) => row.rank === rank);
}

function eventName({ short, kind, dur, start }: Brief): string {
  return `${short}, ${kind}, ${formatDuration(dur)}, starts at ${formatTime(start)}`;
}

function rowName({ rank, track, memberRanks, badge, open, stacks }: RowInfo): string {
  if (track !== null) {
    const name = `rank ${rank}, ${track.label}, ${plural(track.events, "event")}`;
    return stacks === "folded" ? `${name}, Python frames folded` : name;
  }
  const name =
    memberRanks === undefined
      ? `rank ${rank}${badge === "fold" ? ", similar ranks unfolded" : ""}`
      : `${ranksText(memberRanks)}, folded into rank ${rank}`;
  return `${name}, ${open ? "open" : "closed"}`;
}
