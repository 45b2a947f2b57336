/** The lower edge of a timeline's rows: dragged, or moved by keys, it sets their height. */

import { signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Stage } from "../stage/stage";

/** Same as in the widgets' trait. */
const LEAST_PX = 120;
const STEP_PX = 24;

export class Height {
  /** Height of the drawing: less than requested if the rows need less. */
  readonly own = signal(LEAST_PX);
  /** Height in which every row has room. */
  readonly natural = signal(LEAST_PX);
  private asked = LEAST_PX;

  constructor(
    private readonly stage: Stage,
    private readonly kept: (height: number) => void,
  ) {}

  set most(height: number) {
    this.asked = Math.max(height, LEAST_PX);
    this.fit();
  }

  /** Limit the height to that of the rows. */
  fit(): void {
    this.own.value = Math.max(this.stage.contentHeight(this.asked), LEAST_PX);
    this.natural.value = this.stage.contentHeight();
  }

  /** Store what was requested. */
  keep(): void {
    this.kept(Math.round(this.asked));
  }
}

export function HeightEdge({ height }: { height: Height }) {
  const own = height.own.value;
  /** Start of a drag, and the height then. */
  const from = useRef<{ y: number; height: number } | null>(null);
  const drop = (): void => {
    if (from.current !== null) height.keep();
    from.current = null;
  };
  return (
    <div
      class="hta-height"
      role="separator"
      tabIndex={0}
      title="Drag: height of the rows. Arrow keys as well; Home: least; End: all rows"
      aria-orientation="horizontal"
      aria-label="Height of the rows"
      aria-valuemin={LEAST_PX}
      aria-valuenow={Math.round(own)}
      aria-valuemax={Math.round(Math.max(height.natural.value, own))}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.preventDefault();
        event.currentTarget.focus({ preventScroll: true });
        event.currentTarget.setPointerCapture(event.pointerId);
        from.current = { y: event.clientY, height: own };
      }}
      onPointerMove={({ clientY }) => {
        const { current: start } = from;
        if (start !== null) height.most = start.height + clientY - start.y;
      }}
      onPointerUp={drop}
      onPointerCancel={drop}
      onKeyDown={(event) => {
        const to: Record<string, number> = {
          ArrowUp: own - STEP_PX,
          ArrowDown: own + STEP_PX,
          Home: LEAST_PX,
          End: height.natural.value,
        };
        const next = to[event.key];
        if (next === undefined) return;
        event.preventDefault();
        height.most = next;
        height.keep();
      }}
    />
  );
}
