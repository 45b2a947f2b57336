/** A page of charts to look at: every chart at one width, in one theme. See charts_shoot.py. */

import { CHARTS, makeChart } from "../src/dashboard/charts";
import type { Brush, ChartPanel, Chosen, PanelFrame, ThemeName } from "../src/protocol/source";
import { applyTheme } from "../src/ui/theme";

const none: Chosen = { ranks: null, names: null, kinds: null, window: null };

interface Harness {
  Bokeh: unknown;
  items: Record<string, { light: unknown; dark: unknown }>;
  frames: Record<string, PanelFrame>;
  panels: Record<string, ChartPanel>;
  brushes: Brush[];
  mount(width: number, theme: ThemeName, chosen: Partial<Chosen>, only?: string[]): Promise<void>;
}

const page = window as unknown as { harness: Harness };

page.harness.mount = async (width, theme, chosen, only = [...CHARTS]) => {
  const { harness } = page;
  document.body.replaceChildren();
  applyTheme(document.body, theme);
  document.body.style.cssText += ";margin:12px;background:var(--hta-bg)";
  harness.panels = {};
  harness.brushes = [];
  for (const id of only) {
    const frame = harness.frames[id];
    if (frame === undefined || harness.items[id] === undefined) continue;
    const box = document.createElement("div");
    box.style.cssText = `width:${width}px;margin-bottom:20px`;
    document.body.append(box);
    const panel = await makeChart(
      id,
      harness.Bokeh,
      harness.items[id],
      box,
      (brush) => harness.brushes.push(brush),
      theme,
    );
    panel.show(frame, { ...none, ...chosen });
    harness.panels[id] = panel;
  }
};
