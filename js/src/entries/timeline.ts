/** The timeline widget: one app per view, all of them on the state that the model names. */

import "./timeline.css";
import type { RenderProps } from "@anywidget/types";
import { TimelineApp } from "../app/app";
import { type FollowedTraits, showFollowing } from "../app/follow_model";
import { listenTo } from "../app/shared";
import { AskingAgain } from "../data/again";
import { KernelSource } from "../data/kernel_source";
import { findPageSource } from "../page/index";
import { createStage } from "../stage";

interface Traits extends FollowedTraits {
  height: number;
  /** Not set in saved pages. */
  folded?: boolean;
}

async function render(props: RenderProps<Traits>): Promise<void> {
  const { model, el, signal } = props;
  await showFollowing(props, "The timeline cannot be shown", (scene, state) => {
    const app = new TimelineApp(el, {
      scene,
      state,
      source: findPageSource(model) ?? new AskingAgain(new KernelSource(model, signal)),
      height: model.get("height"),
      signal,
      makeStage: createStage,
      folded: model.get("folded") ?? null,
      keepFolded: (folded) => {
        model.set("folded", folded);
        model.save_changes();
      },
    });
    const fold = (): void => app.setFolded(model.get("folded") === true);
    const resize = (): void => {
      app.height = model.get("height");
    };
    listenTo(model, "change:folded", fold, signal);
    listenTo(model, "change:height", resize, signal);
    return app;
  });
}

export default { render };
