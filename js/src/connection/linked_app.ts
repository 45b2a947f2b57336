/** Bind a widget's app to the state and the traces of the widget's model. */

import type { RenderProps } from "@anywidget/types";
import { readScene } from "../protocol/scene";
import { asError, type Scene } from "../protocol/source";
import { showFailurePanel } from "../ui/controls";
import { addressChanges, applyAddress, changedPanels, followAddress, stateText } from "./link";
import { listenTo, type Model } from "./store";

export interface FollowedTraits {
  [key: string]: unknown;
  /** Reference to the state widget, changed by `link`. */
  state: string;
  _scene: Scene;
}

interface LinkedApp {
  attach(state: Model): void;
  setScene(scene: Scene): void;
  fail(title: string, error: unknown): void;
  /** Show a sentence briefly. */
  flash(text: string): void;
}

/** Call `follow` with each new value of a trait. */
function followTrait(
  model: Pick<Model, "get" | "on" | "off">,
  key: string,
  signal: AbortSignal,
  follow: (value: unknown) => void,
): void {
  let last = model.get(key);
  const onChange = (): void => {
    const value = model.get(key);
    if (value === last) return;
    last = value;
    follow(value);
  };
  listenTo(model, `change:${key}`, onChange, signal);
}

/** Make an app and bind it to the model's state and traces. On failure, show the reason. */
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
    followTrait(model, "state", signal, (reference) => {
      stateModel().then(
        (newState) => {
          // The state may have changed again, and the newer model may have arrived first.
          if (model.get("state") === reference && !signal.aborted) app.attach(newState);
        },
        (error: unknown) => app.fail("The linked state cannot be reached", error),
      );
    });
    followTrait(model, "_scene", signal, (value) => {
      try {
        scene = readScene(value);
        app.setScene(scene);
      } catch (error) {
        app.fail("The new traces cannot be shown", error);
      }
    });
  } catch (error) {
    showFailurePanel(el, failureTitle, asError(error), signal);
  }
}
