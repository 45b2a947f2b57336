/** The timeline widget. Each view is an app bound to the state referenced by the model. */

import type { RenderProps } from "@anywidget/types";
import { HybridSource } from "../connection/answering";
import { KernelSource } from "../connection/kernel";
import { type FollowedTraits, renderLinkedApp } from "../connection/linked_app";
import { listenTo, saveTrait } from "../connection/store";
import { findPageSource } from "../engine/job";
import { TimelineApp } from "../timeline/view";

interface TimelineTraits extends FollowedTraits {
  height: number;
  /** Not set in saved pages. */
  folded?: boolean;
}

async function render(props: RenderProps<TimelineTraits>): Promise<void> {
  const { model, el, signal } = props;
  const save = (name: string, value: unknown): void => saveTrait(model, name, value);
  await renderLinkedApp(props, "The timeline cannot be shown", (scene, state) => {
    const page = findPageSource(model);
    const app = new TimelineApp(el, {
      scene,
      state,
      source: page ?? new HybridSource(new KernelSource(model, signal)),
      setClock: page === null ? (clock) => save("clock", clock) : undefined,
      height: model.get("height"),
      signal,
      folded: model.get("folded") ?? null,
      saveFolded: (folded) => save("folded", folded),
      saveHeight: (height) => save("height", height),
    });
    const fold = (): void => app.folding.set(model.get("folded") === true, false);
    const resize = (): void => {
      app.height = model.get("height");
    };
    listenTo(model, "change:folded", fold, signal);
    listenTo(model, "change:height", resize, signal);
    return app;
  });
}

export default { render };
