/** A pin in the gutter at the row under the pointer. */

import { signal } from "@preact/signals";
import type { RowInfo } from "../protocol/source";
import { Icon } from "../ui/controls";
import type { TimelineContext } from "./context";
import { pinName, type RowsController } from "./rows";

const PIN_WIDTH = 24;
const MAX_PROBES = 400;

export class RowPin {
  readonly placement = signal<{ row: RowInfo; left: number; top: number } | null>(null);

  constructor(private readonly app: { ctx: TimelineContext; rows: RowsController }) {}

  /** Show the pin at this row, next to a point in the gutter; null hides it. */
  show(row: RowInfo | null, point: { x: number; y: number } | null): void {
    const { stage } = this.app.ctx;
    const shown = this.placement.value?.row;
    if (row === null || point === null) this.placement.value = null;
    else if (shown === undefined || pinName(shown) !== pinName(row)) {
      const left = stage.xOf(stage.view()[0]) - PIN_WIDTH - 2;
      this.placement.value = { row, left, top: this.top(row, point) + 1 };
    }
  }

  private top(row: RowInfo, point: { x: number; y: number }): number {
    let y = point.y;
    for (let probe = 0; probe < MAX_PROBES && y > 0; probe += 1) {
      const above = this.app.ctx.stage.hitTest(point.x, y - 1).row;
      if (above === null || above.rank !== row.rank || above.track?.key !== row.track?.key) break;
      y -= 1;
    }
    return y;
  }

  isPinned(row: RowInfo): boolean {
    return this.app.ctx.shared.state.pinned.includes(pinName(row));
  }

  toggle(): void {
    if (this.placement.value !== null) this.app.rows.togglePin(this.placement.value.row);
    this.placement.value = null;
  }
}

export function PinButton({ pin }: { pin: RowPin }) {
  const { value: placement } = pin.placement;
  if (placement === null) return null;
  const isPinned = pin.isPinned(placement.row);
  return (
    <button
      type="button"
      class="hta-button hta-button-icon hta-pin"
      title={isPinned ? "Unpin (P)" : "Pin to the top (P)"}
      aria-label="Pin to the top"
      aria-keyshortcuts="P"
      aria-pressed={isPinned}
      tabIndex={-1}
      style={{ left: placement.left, top: placement.top }}
      onClick={() => pin.toggle()}
      onPointerLeave={() => pin.show(null, null)}
    >
      <Icon name="pin" />
    </button>
  );
}
