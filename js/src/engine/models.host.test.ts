import { afterEach, expect, test, vi } from "vitest";
import type { Source } from "../protocol/source";
import { EMBEDDED, findPageSource, offerPageSource } from "./job";
import { PageHost, PageModel } from "./models";

afterEach(() => vi.restoreAllMocks());

test("a model notifies its listeners of changes once and synchronously", () => {
  const model = new PageModel({ a: 1 });
  const heard: string[] = [];
  const one = (): void => void heard.push(`one ${String(model.get("a"))}`);
  model.on("change:a", one);
  model.on("change:a", () => {
    heard.push("two");
    model.off("change:a", one);
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

test("views reach other models and widgets by reference", async () => {
  const shown = vi.fn();
  const modules: Record<string, unknown> = {
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
  const host = new PageHost(
    {
      state: { module: "shared", state: { view: [1, 2] } },
      timeline: { module: "view", state: {} },
    },
    async (name) => modules[name],
  );
  const el = document.createElement("div");
  el.id = "here";
  await host.show("timeline", el);
  expect(shown).toHaveBeenCalledWith([1, 2], { answer: 42 }, "here", false);
  await expect(host.show("nobody", el)).rejects.toThrow("no model nobody");
});

test("a module that fails is a rejection of its views", async () => {
  const specs = { timeline: { module: "view", state: {} } };
  const host = new PageHost(specs, async () => {
    throw new Error("broken");
  });
  await expect(host.show("timeline", document.createElement("div"))).rejects.toThrow("broken");
});

test("widgets find the source that their model names", () => {
  const source = { status: "none" } as Source;
  expect(findPageSource(new PageModel({ [EMBEDDED]: "one" }))).toBeNull();
  offerPageSource("one", source);
  expect(findPageSource(new PageModel({ [EMBEDDED]: "one" }))).toBe(source);
  expect(findPageSource(new PageModel({}))).toBeNull();
});
