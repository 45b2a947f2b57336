import { expect, test } from "vitest";
import { fitToWindow, WidgetHost } from "./host";
import { RemoteModel } from "./models";

test("styles come once, as a sheet of the document", async () => {
  const before = document.adoptedStyleSheets.length;
  const host = new WidgetHost({
    post: () => undefined,
    load: async () => ({ default: {} }),
    css: async (name) => `.${name} { width: 7px; }`,
  });
  for (const comm of ["one", "two"]) {
    host.receive({ type: "comm_open", comm, data: { state: { _esm: "view", _css: "narrow" } } });
    await host.show(comm, document.createElement("div"));
  }
  expect(document.adoptedStyleSheets).toHaveLength(before + 1);
  const el = document.createElement("div");
  el.className = "narrow";
  document.body.append(el);
  expect(el.offsetWidth).toBe(7);
  el.remove();
});

test("a timeline and open panels share the window, and no other view receives it", () => {
  const sent: unknown[] = [];
  const manager = { kernel: { status: "idle" as const } };
  const model = new RemoteModel({ height: 480 }, (data) => sent.push(data), manager);
  const view = document.createElement("div");
  const frame = document.createElement("div");
  frame.className = "hta-stage-frame";
  frame.style.height = "400px"; // the rows need less than the requested 480 px
  view.style.height = "520px";
  view.append(frame);
  document.body.append(view);
  fitToWindow(view, model, () => 40);
  expect(model.get("height")).toBe(Math.max(320, window.innerHeight - 40 - 120));
  model.save_changes();
  expect(sent).toEqual([]);
  view.remove();
});
