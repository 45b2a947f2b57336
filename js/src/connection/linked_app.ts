/** Bind the app of a widget to the state and the traces of the widget's model. */

import type { RenderProps } from "@anywidget/types";
import { readScene } from "../protocol/scene";
import { asError, type Scene } from "../protocol/source";
import { showFailurePanel } from "../ui/controls";
import { addressChanges, applyAddress, changedPanels, followAddress, stateText } from "./link";
import { listenTo, type Model } from "./store";

export interface FollowedTraits {
  [key: string]: unknown;
  /** Reference to the state widget. `link` changes it. */
  state: string;
  _scene: Scene;
}

interface LinkedApp {
  attach(state: Model): void;
  setScene(scene: Scene): void;
  fail(title: string, error: unknown): void;
  /** Show a sentence for a moment. */
  flash(text: string): void;
}

/** Make an app and bind it to the model's state and traces. If that fails, show the reason. */
export async function renderLinkedApp<T extends FollowedTraits>(
  { model, el, host, signal }: RenderProps<T>,
  failureTitle: string,
  makeApp: (scene: Scene, state: Model) => LinkedApp,
): Promise<void> {
  const stateModel = async (): Promise<Model> => await host.getModel(model.get("state"));
  try {
    let scene = readScene(model.get("_scene"));
    const state = await stateModel();
    if (signal.aborted) return;
    const rejected = applyAddress(model, state, scene);
    const app = makeApp(scene, state);
    app.flash(rejected);
    const apply = (): void => app.flash(applyAddress(model, state, scene));
    const text = (): string | null => stateText(state, scene.range, changedPanels(model));
    followAddress(model, addressChanges(model, state), text, signal, apply);
    let stateRef = model.get("state");
    let shownScene = model.get("_scene");
    const attach = (): void => {
      const next = model.get("state");
      if (next === stateRef) return;
      stateRef = next;
      stateModel().then(
        (other) => {
          // The state may have changed again, and the newer model may have arrived first.
          if (stateRef === next && !signal.aborted) app.attach(other);
        },
        (error: unknown) => app.fail("The linked state cannot be reached", error),
      );
    };
    const setScene = (): void => {
      const next = model.get("_scene");
      if (next === shownScene) return;
      shownScene = next;
      try {
        scene = readScene(next);
        app.setScene(scene);
      } catch (error) {
        app.fail("The new traces cannot be shown", error);
      }
    };
    listenTo(model, "change:state", attach, signal);
    listenTo(model, "change:_scene", setScene, signal);
  } catch (error) {
    showFailurePanel(el, failureTitle, asError(error), signal);
  }
}
