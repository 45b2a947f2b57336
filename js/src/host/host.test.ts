import { afterEach, expect, test, vi } from "vitest";
import { EMBEDDED, findPageSource, offerPageSource } from "../engine/job";
import type { Source } from "../protocol/source";
import { type Transport, WidgetHost } from "./host";
import { RemoteModel } from "./models";

afterEach(() => vi.restoreAllMocks());

const idle = { kernel: { status: "idle" as const } };

function modelOf(state: Record<string, unknown>): { model: RemoteModel; sent: unknown[] } {
  const sent: unknown[] = [];
  return { model: new RemoteModel(state, (data) => sent.push(data), idle), sent };
}

/** Return a host with synthetic modules and the models in `states`, and the messages it sends. */
function hostOf(
  modules: Record<string, unknown>,
  states: Record<string, Record<string, unknown>> = {},
): { host: WidgetHost; posted: unknown[] } {
  const posted: unknown[] = [];
  const transport: Transport = {
    post: (message) => posted.push(message),
    load: async (name) => {
      if (!(name in modules)) throw new Error(`broken: ${name}`);
      return { default: modules[name] };
    },
    css: async (name) => `.${name} { color: red; }`,
  };
  const host = new WidgetHost(transport, null, 0);
  for (const [comm, state] of Object.entries(states)) {
    host.receive({ type: "comm_open", comm, data: { state } });
  }
  return { host, posted };
}

test("a model notifies its listeners of changes once and synchronously", () => {
  const { model } = modelOf({ a: 1 });
  const heard: string[] = [];
  const listener = (): void => void heard.push(`one ${String(model.get("a"))}`);
  model.on("change:a", listener);
  model.on("change:a", () => {
    heard.push("two");
    model.off("change:a", listener);
  });
  model.on("change", () => heard.push("any"));
  model.set("a", 2);
  model.set("a", 2);
  model.set("a", 3);
  expect(heard).toEqual(["one 2", "two", "any", "two", "any"]);
  model.off();
  model.set("a", 4);
  expect(heard).toHaveLength(5);
});

test("equal values change nothing, however deep, and what is set locally is not sent", () => {
  const { model, sent } = modelOf({ selection: { ranks: [5], query: null }, height: null });
  const heard = vi.fn();
  // A local change only reaches local listeners.
  model.on("change:height", heard);
  model.setLocally("height", 700);
  model.save_changes();
  expect(heard.mock.calls.splice(0)).toHaveLength(1);
  expect(sent).toEqual([]);
  model.on("change:selection", heard);
  model.set("selection", { query: null, ranks: [5] });
  model.save_changes();
  expect(heard).not.toHaveBeenCalled();
  expect(sent).toEqual([]);
  model.set("selection", { query: null, ranks: [5, 6] });
  model.save_changes();
  model.save_changes();
  expect(heard).toHaveBeenCalledTimes(1);
  const state = { selection: { query: null, ranks: [5, 6] } };
  expect(sent).toEqual([{ method: "update", state, buffer_paths: [] }]);
});

test("what was set here and is not yet sent wins over what arrives", () => {
  const { model } = modelOf({ view: [0, 9], search: "" });
  model.set("view", [2, 3]);
  model.receive({ method: "update", state: { view: [0, 5], search: "nccl" } }, []);
  expect([model.get("view"), model.get("search")]).toEqual([[2, 3], "nccl"]);
  model.save_changes();
  model.receive({ method: "echo_update", state: { view: [4, 5] } }, []);
  expect(model.get("view")).toEqual([4, 5]);
});

test("buffers return to their places", () => {
  const { host } = hostOf({}, {});
  const bytes = new DataView(new ArrayBuffer(2));
  const data = { state: { a: { b: [0, null] } }, buffer_paths: [["a", "b", 1]] };
  host.receive({ type: "comm_open", comm: "one", data }, [bytes]);
  return expect(host.model("one").then((model) => model.get("a"))).resolves.toEqual({
    b: [0, bytes],
  });
});

test("views reach other models and widgets by reference", async () => {
  const shown = vi.fn();
  const modules = {
    shared: { initialize: () => ({ answer: 42 }) },
    view: () => ({
      async render({ host, el, signal }: any) {
        const state = await host.getModel("anywidget:state");
        const { exports } = await host.getWidget("IPY_MODEL_state");
        shown(state.get("view"), exports, el.id, signal.aborted);
        await expect(host.getModel("anywidget:none")).rejects.toThrow("no model");
      },
    }),
  };
  const { host } = hostOf(modules, {
    state: { _esm: "shared", view: [1, 2] },
    timeline: { _esm: "view" },
  });
  const el = document.createElement("div");
  el.id = "here";
  await host.show("timeline", el);
  expect(shown).toHaveBeenCalledWith([1, 2], { answer: 42 }, "here", false);
  await expect(host.show("nobody", el)).rejects.toThrow("no model nobody");
});

test("a module that fails is a rejection of its views, and is tried again", async () => {
  const modules: Record<string, unknown> = {};
  const { host } = hostOf(modules, { timeline: { _esm: "view" } });
  const el = document.createElement("div");
  await expect(host.show("timeline", el)).rejects.toThrow("broken");
  modules.view = { render: ({ el: place }: any) => (place.textContent = "shown") };
  await host.show("timeline", el);
  expect(el.textContent).toBe("shown");
});

test("a model that comes later is waited for", async () => {
  const host = new WidgetHost({ post: vi.fn(), load: vi.fn(), css: vi.fn() }, null, 1000);
  const later = host.model("anywidget:late");
  host.receive({ type: "comm_open", comm: "late", data: { state: { a: 1 } } });
  expect((await later).get("a")).toBe(1);
});

test("a model that is opened again keeps its listeners and takes the new state", async () => {
  const { host } = hostOf({}, { one: { search: "", color: "kind" } });
  const model = await host.model("one");
  const heard = vi.fn();
  model.on("change:search", heard);
  host.receive({ type: "comm_open", comm: "one", data: { state: { search: "nccl" } } });
  expect(await host.model("one")).toBe(model);
  expect([model.get("search"), model.get("color")]).toEqual(["nccl", "kind"]);
  expect(heard).toHaveBeenCalledTimes(1);
});

test("when Python has ended, sending fails and models are notified", async () => {
  const { host, posted } = hostOf({}, { one: { a: 1 } });
  const model = await host.model("one");
  const closed = vi.fn();
  model.on("comm:close", closed);
  model.send({ rpc: "1" });
  expect(posted).toEqual([
    { type: "comm_msg", comm: "one", data: { method: "custom", content: { rpc: "1" } } },
  ]);
  host.endModel();
  host.endModel();
  expect(closed).toHaveBeenCalledTimes(1);
  expect(model.widget_manager.kernel.status).toBe("dead");
  expect(() => model.send({ rpc: "2" })).toThrow("ended");
  model.set("a", 2);
  model.save_changes();
  expect(model.get("a")).toBe(2);
  expect(posted).toHaveLength(1);
});

test("widgets find the source that their model names", () => {
  const source = { status: "none" } as Source;
  const { model } = modelOf({ [EMBEDDED]: "one" });
  expect(findPageSource(model)).toBeNull();
  offerPageSource("one", source);
  expect(findPageSource(model)).toBe(source);
  expect(findPageSource(modelOf({}).model)).toBeNull();
});
