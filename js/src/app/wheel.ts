/** The wheel: zoom and pan here; plain turns belong to the notebook unless the rows can scroll. */

import type { Context } from "./context";
import { axisWidth } from "./drags";
import { type WheelAction, wheelAction } from "./gesture_maths";
import type { Navigation } from "./navigation";

const END_MS = 140;
const HINTS = 3;

export interface WheelParts {
  ctx: Context;
  nav: Navigation;
  hasFocus(): boolean;
  /** A plain turn went to the page, and the wheel is not known yet: say how to zoom. */
  hint(): void;
}

export function listenToWheel(parts: WheelParts): void {
  const { ctx, nav } = parts;
  let turning = 0;
  let hints = HINTS;
  const keepTurning = (): void => {
    if (turning) clearTimeout(turning);
    else nav.begin();
    turning = window.setTimeout(() => {
      turning = 0;
      nav.end();
    }, END_MS);
  };
  ctx.signal.addEventListener("abort", () => clearTimeout(turning), { once: true });

  const turn = (event: WheelEvent): boolean => {
    const action: WheelAction = wheelAction(event);
    if (action.do === "rows") {
      // At the end of the rows the page goes on scrolling.
      if (parts.hasFocus() && ctx.stage.scrollBy(action.pixels)) return true;
      if (action.pixels !== 0 && hints > 0) {
        hints -= 1;
        parts.hint();
      }
      return false;
    }
    keepTurning();
    if (action.do === "zoom") {
      const x = event.clientX - ctx.stage.el.getBoundingClientRect().left;
      const [start, end] = nav.view();
      nav.zoomBy(action.factor, Math.min(Math.max(ctx.stage.timeAt(x), start), end));
    } else {
      nav.panBy(action.pixels / Math.max(axisWidth(ctx), 1));
    }
    hints = 0;
    return true;
  };

  ctx.stage.el.addEventListener(
    "wheel",
    (event) => {
      if (!turn(event)) return;
      event.preventDefault();
      event.stopPropagation();
    },
    { signal: ctx.signal, passive: false },
  );
}
