/** A whole view of the recorded job in a real browser, and simulated input; for tests. */

import { expect } from "vitest";
import { type Locator, page } from "vitest/browser";
import type { PageDocument } from "../src/engine/document";
import type { Scene, Span } from "../src/protocol/source";
import { TimelineApp } from "../src/timeline/view";
import "../src/entries/widgets.css";
import { type ViewQueries, queriesBelow, makeBox } from "./finding";
import { freshState, type LooseModel } from "./model";
import { eventNamed, openPage, recordedPage } from "./recorded";
import { Watched } from "./watched";

export interface View extends ViewQueries {
  root: HTMLElement;
  stage: HTMLElement;
  state: LooseModel;
  source: Watched;
  scene: Scene;
  app: TimelineApp;
  end: AbortController;
  /** The element with a role and accessible name, or a part of the name. */
  by(role: Parameters<Locator["getByRole"]>[0], name: string): HTMLElement;
  press(key: string, more?: KeyboardEventInit): KeyboardEvent;
}

const CODES: Record<string, string> = { "/": "Slash", " ": "Space" };

export function mount(
  change: (page: PageDocument, source: Watched) => void = () => {},
  place?: ParentNode,
): View {
  const recorded = recordedPage();
  const { scene } = recorded;
  const source = new Watched(openPage(recorded));
  change(recorded, source);
  const state = freshState();
  const { box, end } = makeBox(1100, place);
  const app = new TimelineApp(box, { scene, source, state, height: 400, signal: end.signal });
  const root = box.firstElementChild as HTMLElement;
  const queries = queriesBelow(root);
  return {
    ...queries,
    root,
    stage: queries.find(".hta-stage"),
    by: (role, name) =>
      page.elementLocator(root).getByRole(role, { name }).element() as HTMLElement,
    state,
    source,
    scene,
    app,
    end,
    press: (key, more = {}) => {
      const code = CODES[key] ?? (/^[a-z]$/i.test(key) ? `Key${key.toUpperCase()}` : key);
      const init = { key, code, bubbles: true, cancelable: true, composed: true, ...more };
      const focus = (root.getRootNode() as Document | ShadowRoot).activeElement;
      const target = focus !== null && root.contains(focus) ? focus : root;
      const event = new KeyboardEvent("keydown", init);
      target.dispatchEvent(event);
      target.dispatchEvent(new KeyboardEvent("keyup", init));
      return event;
    },
  };
}

/** A point of the stage, as a client position. */
export function clientPosition(
  view: View,
  x: number,
  y: number,
): { clientX: number; clientY: number } {
  const box = view.stage.getBoundingClientRect();
  return { clientX: box.left + x, clientY: box.top + y };
}

export function pointer(
  view: View,
  type: string,
  x: number,
  y: number,
  more: PointerEventInit = {},
): void {
  const init = {
    bubbles: true,
    cancelable: true,
    pointerId: 1,
    ...clientPosition(view, x, y),
    ...more,
  };
  view.stage.dispatchEvent(new PointerEvent(type, init));
}

export function tap(view: View, x: number, y: number, more?: PointerEventInit): void {
  pointer(view, "pointerdown", x, y, more);
  pointer(view, "pointerup", x, y, more);
}

export function doubleClick(view: View, x: number, y: number): void {
  const init = { bubbles: true, cancelable: true, ...clientPosition(view, x, y) };
  view.stage.dispatchEvent(new MouseEvent("dblclick", init));
}

export function drag(
  view: View,
  from: [number, number],
  to: [number, number],
  more?: PointerEventInit,
): void {
  pointer(view, "pointermove", ...from, more);
  pointer(view, "pointerdown", ...from, more);
  for (let step = 1; step <= 4; step += 1) {
    const at = (axis: 0 | 1): number => from[axis] + ((to[axis] - from[axis]) * step) / 4;
    pointer(view, "pointermove", at(0), at(1), more);
  }
  pointer(view, "pointerup", ...to, more);
}

export const viewOf = (view: View): Span => view.state.get("view") as Span;
export const spanLength = (span: Span): number => span[1] - span[0];

export async function waitForFigures(view: View): Promise<void> {
  await expect.poll(() => view.text(".hta-said")).toContain("compute");
}

/** A view that shows its first figures. */
export async function openTimeline(...args: Parameters<typeof mount>): Promise<View> {
  const view = mount(...args);
  await waitForFigures(view);
  return view;
}

export function pick(view: View, name: string): void {
  const { rank, id } = eventNamed(name);
  view.state.set("selected_event", [rank, id]);
}
