/** The dashboard widget: one app per view, all of them on the state that the model names. */

import "./dashboard.css";
import type { RenderProps } from "@anywidget/types";
import { brokenPanel } from "../app/notice";
import { asError } from "../app/observed_source";
import { readScene } from "../app/scene";
import type { Model } from "../app/shared";
import type { Scene } from "../contract";
import { DashApp } from "../dash/app";
import { makeChart } from "../dash/charts/index";
import { liveSource } from "../data/offline";
import { findPageSource } from "../page/index";
import { createStage } from "../stage";

interface Traits {
  [key: string]: unknown;
  /** Names the state widget; another name after `link`. */
  state: string;
  /** Names the widget that carries BokehJS, once the kernel has made it. */
  bokehjs: string | null;
  _scene: Scene;
}

async function render({ model, el, host, signal }: RenderProps<Traits>): Promise<void> {
  const listen = (event: string, listener: () => void): void => {
    model.on(event, listener);
    signal.addEventListener("abort", () => model.off(event, listener), { once: true });
  };
  const stateModel = async (): Promise<Model> => await host.getModel(model.get("state"));
  const bokeh = (): Promise<unknown> | null => {
    const ref = model.get("bokehjs");
    if (typeof ref !== "string") return null;
    return host.getWidget(ref).then(({ exports }) => (exports as { Bokeh: unknown }).Bokeh);
  };

  try {
    const scene = readScene(model.get("_scene"));
    const state = await stateModel();
    if (signal.aborted) return;
    const page = findPageSource(model);
    const live = page === null ? liveSource(model, signal) : null;
    const app = new DashApp(el, {
      scene,
      state,
      model,
      source: page ?? live!.source,
      live,
      signal,
      makeStage: createStage,
      makeChart,
      bokeh,
    });
    let ref = model.get("state");
    let shown = model.get("_scene");
    listen("change:state", () => {
      const next = model.get("state");
      if (next === ref) return;
      ref = next;
      stateModel().then(
        (other) => {
          // A later change may have been faster.
          if (ref === next && !signal.aborted) app.attach(other);
        },
        (error: unknown) => app.fail("The linked state cannot be reached", error),
      );
    });
    listen("change:_scene", () => {
      const next = model.get("_scene");
      if (next === shown) return;
      shown = next;
      try {
        app.setScene(readScene(next));
      } catch (error) {
        app.fail("The new traces cannot be shown", error);
      }
    });
  } catch (error) {
    if (signal.aborted) return;
    el.replaceChildren(brokenPanel("The dashboard cannot be shown", asError(error)));
    signal.addEventListener("abort", () => el.replaceChildren(), { once: true });
  }
}

export default { render };
