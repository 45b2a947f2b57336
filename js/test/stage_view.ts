/** A stage in a real browser on the recorded job; for tests. */

import { afterEach } from "vitest";
import type { Scene, ThemeName } from "../src/protocol/source";
import { Stage } from "../src/stage/stage";
import { recordedScene } from "./recorded";
import { Watched } from "./watched";

export interface StageView {
  box: HTMLElement;
  stage: Stage;
  source: Watched;
  /** Red, green, blue and alpha of a pixel; canvas 0 has the lanes, canvas 1 the overlay. */
  pixel(canvas: 0 | 1, x: number, y: number): number[];
}

const open: StageView[] = [];

afterEach(() => {
  for (const { stage, box } of open.splice(0)) {
    stage.destroy();
    box.remove();
  }
});

export function mountStage({
  width = 1100,
  height = 445,
  theme = "light",
  scene = recordedScene(),
  source = new Watched(),
}: {
  width?: number;
  height?: number;
  theme?: ThemeName;
  scene?: Scene;
  source?: Watched;
} = {}): StageView {
  const box = document.createElement("div");
  box.style.cssText = `position:fixed;left:0;top:0;width:${width}px;height:${height}px`;
  document.body.append(box);
  const stage = new Stage(scene, source, theme);
  box.append(stage.el);
  const pixel = (at: 0 | 1, x: number, y: number): number[] => {
    const canvas = stage.el.querySelectorAll("canvas")[at]!;
    const scale = canvas.width / stage.el.clientWidth;
    const context = canvas.getContext("2d")!;
    return [...context.getImageData(Math.floor(x * scale), Math.floor(y * scale), 1, 1).data];
  };
  const view = { box, stage, source, pixel };
  open.push(view);
  return view;
}
