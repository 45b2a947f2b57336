/** The comparison widget. Each view is an app bound to the two states referenced by the model. */

import type { RenderProps } from "@anywidget/types";
import { applyComparisonAddress, followComparisonAddress } from "../compare/address";
import type { DiffOptions } from "../compare/context";
import { DiffApp } from "../compare/view";
import { liveSource } from "../connection/answering";
import type { Blocks } from "../engine/columns";
import { findPageSource } from "../engine/job";
import { openDiffPage } from "../engine/pairs";
import { readScene } from "../protocol/scene";
import { asError } from "../protocol/source";
import { showFailurePanel } from "../ui/controls";

interface DiffTraits {
  [key: string]: unknown;
  left_state: string;
  right_state: string;
  _scenes: unknown[];
}

async function render({ model, el, host, signal }: RenderProps<DiffTraits>): Promise<void> {
  try {
    const scenes = model.get("_scenes");
    const left = await host.getModel(model.get("left_state"));
    const right = await host.getModel(model.get("right_state"));
    if (signal.aborted) return;
    const page = findPageSource(model);
    const openSource = async (held: Blocks) => (await openDiffPage(held)).source;
    const live = page === null ? liveSource(model, signal, openSource) : null;
    const options: DiffOptions = {
      scenes: [readScene(scenes[0]), readScene(scenes[1])],
      states: [left, right],
      source: page ?? live!.source,
      model,
      live,
      signal,
    };
    applyComparisonAddress(options);
    const app = new DiffApp(el, options);
    followComparisonAddress(app.ctx, signal, (act) => app.changeBoth(act));
  } catch (error) {
    showFailurePanel(el, "The comparison cannot be shown", asError(error), signal);
  }
}

export default { render };
