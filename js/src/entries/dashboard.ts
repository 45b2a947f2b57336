/** The dashboard widget: one app per view, all of them on the state that the model names. */

import "./dashboard.css";
import type { RenderProps } from "@anywidget/types";
import { type FollowedTraits, showFollowing } from "../app/follow_model";
import { DashApp } from "../dash/app";
import { makeChart } from "../dash/charts/index";
import { liveSource } from "../data/offline";
import { findPageSource } from "../page/index";
import { createStage } from "../stage";

interface Traits extends FollowedTraits {
  /** Names the widget that carries BokehJS, once the kernel has made it. */
  bokehjs: string | null;
}

async function render(props: RenderProps<Traits>): Promise<void> {
  const { model, el, host, signal } = props;
  const bokeh = (): Promise<unknown> | null => {
    const ref = model.get("bokehjs");
    if (typeof ref !== "string") return null;
    return host.getWidget(ref).then(({ exports }) => (exports as { Bokeh: unknown }).Bokeh);
  };
  await showFollowing(props, "The dashboard cannot be shown", (scene, state) => {
    const page = findPageSource(model);
    const live = page === null ? liveSource(model, signal) : null;
    return new DashApp(el, {
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
  });
}

export default { render };
