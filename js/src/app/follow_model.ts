/** A widget's view on its model: an app that follows the state and the traces that it names. */

import { asError } from "../contract";
import type { RenderProps } from "@anywidget/types";
import type { Scene } from "../contract";
import { brokenPanel } from "./notice";
import { readScene } from "./scene";
import { listenTo, type Model } from "./shared";

export interface FollowedTraits {
  [key: string]: unknown;
  /** Names the state widget; another name after `link`. */
  state: string;
  _scene: Scene;
}

export interface FollowingApp {
  attach(state: Model): void;
  setScene(scene: Scene): void;
  fail(title: string, error: unknown): void;
}

/** Make an app and keep it on the model's state and traces; where it cannot be, say why. */
export async function showFollowing<T extends FollowedTraits>(
  { model, el, host, signal }: RenderProps<T>,
  failed: string,
  makeApp: (scene: Scene, state: Model) => FollowingApp,
): Promise<void> {
  const stateModel = async (): Promise<Model> => await host.getModel(model.get("state"));
  try {
    const scene = readScene(model.get("_scene"));
    const state = await stateModel();
    if (signal.aborted) return;
    const app = makeApp(scene, state);
    let ref = model.get("state");
    let shown = model.get("_scene");
    const attach = (): void => {
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
    };
    const setScene = (): void => {
      const next = model.get("_scene");
      if (next === shown) return;
      shown = next;
      try {
        app.setScene(readScene(next));
      } catch (error) {
        app.fail("The new traces cannot be shown", error);
      }
    };
    listenTo(model, "change:state", attach, signal);
    listenTo(model, "change:_scene", setScene, signal);
  } catch (error) {
    if (signal.aborted) return;
    el.replaceChildren(brokenPanel(failed, asError(error)));
    signal.addEventListener("abort", () => el.replaceChildren(), { once: true });
  }
}
