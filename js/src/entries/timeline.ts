/** The timeline widget: one app per view, all of them on the state that the model names. */

import "./timeline.css";
import type { RenderProps } from "@anywidget/types";
import { TimelineApp } from "../app/app";
import { brokenPanel } from "../app/notice";
import { readScene } from "../app/scene";
import { asError } from "../app/observed_source";
import type { Model } from "../app/shared";
import type { Scene } from "../contract";
import { KernelSource } from "../data/kernel_source";
import { findPageSource } from "../page/index";
import { createStage } from "../stage";

interface Traits {
  [key: string]: unknown;
  /** Names the state widget; another name after `link`. */
  state: string;
  height: number;
  /** Not set in saved pages. */
  folded?: boolean;
  _scene: Scene;
}

async function render({ model, el, host, signal }: RenderProps<Traits>): Promise<void> {
  const listen = (event: string, listener: () => void): void => {
    model.on(event, listener);
    signal.addEventListener("abort", () => model.off(event, listener), { once: true });
  };
  const stateModel = async (): Promise<Model> => await host.getModel(model.get("state"));

  try {
    const scene = readScene(model.get("_scene"));
    const state = await stateModel();
    if (signal.aborted) return;
    const app = new TimelineApp(el, {
      scene,
      state,
      source: findPageSource(model) ?? new KernelSource(model, signal),
      height: model.get("height"),
      signal,
      makeStage: createStage,
      folded: model.get("folded") ?? null,
      keepFolded: (folded) => {
        model.set("folded", folded);
        model.save_changes();
      },
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
    listen("change:folded", () => app.setFolded(model.get("folded") === true));
    listen("change:height", () => {
      app.height = model.get("height");
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
    el.replaceChildren(brokenPanel("The timeline cannot be shown", asError(error)));
    signal.addEventListener("abort", () => el.replaceChildren(), { once: true });
  }
}

export default { render };
