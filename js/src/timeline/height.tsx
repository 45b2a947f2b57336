/** The lower edge of a timeline's rows. The height is set by dragging it, or by keys. */

import { signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Stage } from "../stage/stage";

/** Must equal the minimum of the widget's trait. */
const MIN_PX = 120;
const STEP_PX = 24;

export class HeightControl {
  /** Height as drawn, which is less than the requested height if the rows need less. */
  readonly userHeight = signal(MIN_PX);
  readonly naturalHeight = signal(MIN_PX);
  private requestedHeight = MIN_PX;

  constructor(
    private readonly stage: Stage,
    private readonly saveHeight: (height: number) => void,
  ) {}

  set maxHeight(height: number) {
    this.requestedHeight = Math.max(height, MIN_PX);
    this.fit();
  }

  /** Limit the height to what the rows need. */
  fit(): void {
    this.userHeight.value = Math.max(this.stage.contentHeight(this.requestedHeight), MIN_PX);
    this.naturalHeight.value = this.stage.contentHeight();
  }

  save(): void {
    this.saveHeight(Math.round(this.requestedHeight));
  }
}

export function HeightEdge({ height }: { height: HeightControl }) {
  const userHeight = height.userHeight.value;
  /** Where a drag started, and the height at that time. */
  const from = useRef<{ y: number; height: number } | null>(null);
  const endDrag = (): void => {
    if (from.current !== null) height.save();
    from.current = null;
  };
  return (
    <div
      class="hta-height"
      role="separator"
      tabIndex={0}
      title="Drag to set the height of the rows, or use the arrow keys. Home: minimum; End: all rows"
      aria-orientation="horizontal"
      aria-label="Height of the rows"
      aria-valuemin={MIN_PX}
      aria-valuenow={Math.round(userHeight)}
      aria-valuemax={Math.round(Math.max(height.naturalHeight.value, userHeight))}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.preventDefault();
        event.currentTarget.focus({ preventScroll: true });
        event.currentTarget.setPointerCapture(event.pointerId);
        from.current = { y: event.clientY, height: userHeight };
      }}
      onPointerMove={({ clientY }) => {
        const { current: start } = from;
        if (start !== null) height.maxHeight = start.height + clientY - start.y;
      }}
      onPointerUp={endDrag}
      onPointerCancel={endDrag}
      onKeyDown={(event) => {
        const to: Record<string, number> = {
          ArrowUp: userHeight - STEP_PX,
          ArrowDown: userHeight + STEP_PX,
          Home: MIN_PX,
          End: height.naturalHeight.value,
        };
        const next = to[event.key];
        if (next === undefined) return;
        event.preventDefault();
        height.maxHeight = next;
        height.save();
      }}
    />
  );
}
