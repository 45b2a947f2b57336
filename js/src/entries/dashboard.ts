/** The dashboard widget. Each view is an app bound to the state referenced by the model. */

import type { RenderProps } from "@anywidget/types";
import { liveSource } from "../connection/answering";
import { type FollowedTraits, renderLinkedApp } from "../connection/linked_app";
import { makeChart } from "../dashboard/charts";
import { DashApp } from "../dashboard/view";
import { findPageSource } from "../engine/job";

async function render(props: RenderProps<FollowedTraits>): Promise<void> {
  const { model, el, signal } = props;
  await renderLinkedApp(props, "The dashboard cannot be shown", (scene, state) => {
    const page = findPageSource(model);
    const live = page === null ? liveSource(model, signal) : null;
    return new DashApp(el, {
      scene,
      state,
      model,
      source: page ?? live!.source,
      live,
      signal,
      makeChart,
    });
  });
}

export default { render };
