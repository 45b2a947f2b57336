/** The widget as notebooks run it: the real anywidget runtime, models, and messages. */

import { afterEach, expect, test } from "vitest";
import { type Live, WidgetPage } from "../../test/manager";
import { freshState } from "../../test/model";
import { recordedScene } from "../../test/recorded";
import { Watched } from "../../test/watched";
import type { Operation } from "../protocol/source";
import state from "./state";
import timeline from "./timeline";

const scope = globalThis as { widgetUnderTest?: unknown };
scope.widgetUnderTest = timeline;
const ESM = "export default { render: (parts) => globalThis.widgetUnderTest.render(parts) };";

afterEach(() => document.body.replaceChildren());

interface Notebook {
  page: WidgetPage;
  state: Live;
  widget: Live;
  source: Watched;
}

/** Return a notebook whose kernel replies from the recorded job. */
async function notebook(traits: Record<string, unknown> = {}): Promise<Notebook> {
  const page = new WidgetPage();
  const source = new Watched();
  const values = freshState().values;
  const shared = await page.make("state", "export default {}", values);
  await page.make("other", "export default {}", { ...values, search: "other" });
  const widget = await page.make("timeline", ESM, {
    _scene: recordedScene(),
    state: "anywidget:state",
    height: 320,
    ...traits,
  });
  const push = page.sent.push.bind(page.sent);
  page.sent.push = (...messages) => {
    for (const { content } of messages) {
      const { rpc, op, ...request } = content as { rpc: string; op: Operation };
      source.ask(op, request as never).then(
        ({ reply, buffer }) =>
          widget.receive({ rpc, ok: true, reply }, buffer === null ? [] : [new DataView(buffer)]),
        (error: unknown) =>
          widget.receive({
            rpc,
            ok: false,
            error: { code: "no_answer", message: (error as Error).message },
          }),
      );
    }
    return push(...messages);
  };
  return { page, state: shared, widget, source };
}

const said = (el: HTMLElement): string => el.querySelector(".hta-said")?.textContent ?? "";
const searched = (el: HTMLElement) =>
  el.querySelector<HTMLInputElement>(".hta-search input")?.value;

/** Show a view and return its element once it has figures. */
async function drawn({ widget }: Notebook) {
  const view = await widget.show();
  await expect.poll(() => said(view.el)).toContain("GPUs compute");
  return view;
}

function press(el: HTMLElement, key: string): void {
  const root = el.querySelector<HTMLElement>(".hta-root")!;
  root.focus();
  for (const type of ["keydown", "keyup"]) {
    const code = `Key${key.toUpperCase()}`;
    root.dispatchEvent(new KeyboardEvent(type, { key, code, bubbles: true }));
  }
}

test("exports are default only, the state has no view", () => {
  expect(Object.keys(timeline)).toEqual(["render"]);
  expect(state).toEqual({});
});

test("it requests data, draws, and saves a gesture once", async () => {
  const opened = await notebook();
  const { page } = opened;
  const { el } = await drawn(opened);
  await expect.poll(() => page.sent.map(({ content }) => content.op)).toContain("tiles");
  page.saved.length = 0;
  press(el, "c");
  await expect
    .poll(() => page.saved.map(({ model, state: saved }) => [model, saved.color]))
    .toContainEqual(["state", "name"]);
  await expect
    .poll(() =>
      page.saved.some(
        ({ state: saved }) =>
          (saved._history as { past: unknown[] } | undefined)?.past.length === 1,
      ),
    )
    .toBe(true);
});

test("two views of one model move together, and end separately", async () => {
  const opened = await notebook();
  const first = await opened.widget.show();
  const second = await drawn(opened);
  press(first.el, "w");
  await expect.poll(() => said(second.el)).toMatch(/^\d/);
  first.remove();
  await expect.poll(() => first.el.childElementCount).toBe(0);
  opened.state.model.set("search", "AllReduce");
  await expect.poll(() => searched(second.el)).toBe("AllReduce");
});

test("another state, height and scene take effect in the open view", async () => {
  const opened = await notebook();
  const { widget } = opened;
  const { el } = await drawn(opened);
  widget.model.set("state", "anywidget:other");
  await expect.poll(() => searched(el)).toBe("other");
  widget.model.set("height", 250);
  const frame = el.querySelector<HTMLElement>(".hta-stage-frame");
  expect(frame?.style.height).toBe("250px");
  const next = recordedScene();
  widget.model.set("_scene", { ...next, title: "another job" });
  await expect.poll(() => el.querySelector(".hta-title")?.textContent).toBe("another job");
});

test("the widget states that it cannot show a scene of another version", async () => {
  const { widget } = await notebook({ _scene: { version: 99 } });
  const { el } = await widget.show();
  await expect.poll(() => el.textContent).toContain("the scene has version 99");
  expect(el.querySelector("[role=alert]")).not.toBeNull();
});

test("a kernel that does not answer is named", async () => {
  const opened = await notebook();
  const { source } = opened;
  const { el } = await drawn(opened);
  source.held = [];
  press(el, "w");
  const badge = (): HTMLElement | null => el.querySelector<HTMLElement>(".hta-kernel");
  await expect.poll(() => badge()?.textContent, { timeout: 5000 }).toContain("Kernel busy");
  source.release();
  await expect.poll(badge, { timeout: 5000 }).toBeNull();
});
