/** The dashboard widget: one app per view, all of them on the state that the model names. */

import type { RenderProps } from "@anywidget/types";
import { liveSource } from "../connection/answering";
import { type FollowedTraits, showFollowing } from "../connection/store";
import { makeChart } from "../dashboard/charts";
import { DashApp } from "../dashboard/view";
import { findPageSource } from "../engine/job";
import { createStage } from "../stage/stage";
import "./dashboard.css";

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
