/** A chart whose cells stand for stretches of time: a click or a drag selects a window. */

import type { Theme } from "../../draw/theme";
import type { RowsContent } from "../charts/content";
import type { Box, Picked } from "../charts/drawing";
import { RowsDrawing } from "../charts/rows_drawing";
import type { Brush, Chosen } from "../types";

type Window = [number, number];

export class WindowDrawing extends RowsDrawing {
  constructor(content: RowsContent, theme: Theme) {
    super(content, "ranks", theme);
  }

  override click(x: number, y: number, _more: boolean, chosen: Chosen): Brush {
    return this.chosenBy(this.windowAt({ x, y }), chosen);
  }

  override press(index: number, _more: boolean, chosen: Chosen): Brush {
    const spot = this.spotOf(index);
    if (spot === null) return this.nothing();
    const { left, top, width, height } = spot.box;
    return this.chosenBy(this.windowAt({ x: left + width / 2, y: top + height / 2 }), chosen);
  }

  override drag(from: Picked, to: Picked): Brush | null {
    const [one, other] = [this.windowAt(from), this.windowAt({ x: to.x, y: from.y })];
    if (one === null || other === null) return null;
    return { window: [Math.min(one[0], other[0]), Math.max(one[1], other[1])] };
  }

  override dragBox(from: Picked, to: Picked): Box | null {
    const spot = this.spot(from.x, from.y);
    if (spot === null) return null;
    const { top, height } = spot.box;
    return { left: Math.min(from.x, to.x), top, width: Math.abs(to.x - from.x), height };
  }

  override nothing(): Brush {
    return { window: null };
  }

  private windowAt({ x, y }: Picked): Window | null {
    return this.hitAt(x, y)?.window ?? null;
  }

  private chosenBy(window: Window | null, chosen: Chosen): Brush {
    const known = chosen.window;
    const same = window !== null && known?.[0] === window[0] && known[1] === window[1];
    return { window: same ? null : window };
  }
}
