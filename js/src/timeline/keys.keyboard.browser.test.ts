/** Keys on the whole view in a real browser. */

import { describe, expect, test } from "vitest";
import { drag, spanLength, mount, openTimeline, pick, viewOf } from "../../test/app_view";

describe("keys", () => {
  test("nothing that is typed reaches the page, host keys do", () => {
    const view = mount();
    view.root.focus();
    const leaked: string[] = [];
    const hear = (event: KeyboardEvent): unknown => leaked.push(event.key);
    document.addEventListener("keydown", hear);
    for (const key of "w a b j d m Enter Delete Insert x y".split(" ")) view.press(key);
    expect(leaked).toEqual([]);
    const host = ["p", "P", "b", "s"].map((key) =>
      view.press(key, { ctrlKey: true, shiftKey: key === "P" }),
    );
    expect(leaked).toEqual(["p", "P", "b", "s"]);
    expect(host.every((event) => !event.defaultPrevented)).toBe(true);
    document.removeEventListener("keydown", hear);
    expect(view.root.dataset.lmSuppressShortcuts).toBe("true");
  });

  test("in a saved page keys work without a click, in a notebook they do not", async () => {
    const press = (key: string, code: string, type = "keydown", target = document.body) =>
      target.dispatchEvent(new KeyboardEvent(type, { key, code, bubbles: true, cancelable: true }));
    const notebook = mount();
    press("w", "KeyW");
    press("/", "Slash");
    expect(notebook.state.get("view")).toBeNull();
    expect(document.activeElement).toBe(document.body);
    notebook.end.abort();
    const place = document.body.appendChild(document.createElement("div"));
    const page = place.appendChild(document.createElement("div"));
    page.dataset.htaPage = "";
    const [first, second] = [mount(undefined, page), mount(undefined, page)];
    press("w", "KeyW");
    press("w", "KeyW", "keyup");
    await expect.poll(() => first.state.get("view")).not.toBeNull();
    expect(second.state.get("view")).toBeNull();
    press("/", "Slash");
    const input = first.find(".hta-search input");
    expect(document.activeElement).toBe(input);
    // The host moves the focus to the container of the view it shows.
    input.blur();
    press("/", "Slash", "keydown", place);
    expect(document.activeElement).toBe(input);
    // If a page has several views, keys act on the view in the focused container.
    const otherPlace = document.body.appendChild(document.createElement("div"));
    otherPlace.dataset.htaPage = "";
    const other = mount(undefined, otherPlace);
    input.blur();
    press("/", "Slash", "keydown", otherPlace);
    expect(document.activeElement).toBe(other.find(".hta-search input"));
    place.remove();
    otherPlace.remove();
  });

  test("letters in the search field are text, Escape leaves it", async () => {
    const view = mount();
    view.root.focus();
    expect(view.press("/").defaultPrevented).toBe(true);
    const input = view.find(".hta-search input");
    expect(document.activeElement).toBe(input);
    view.press("w");
    view.press("c");
    expect(view.state.get("view")).toBeNull();
    expect(view.state.get("color")).toBe("kind");
    view.press("Escape");
    expect(document.activeElement).toBe(view.root);
  });

  test("Escape closes the panel and clears its event, then leaves", async () => {
    const view = mount();
    view.root.focus();
    pick(view, "AllReduce");
    await expect.poll(() => view.text(".hta-details h3")).toContain("AllReduce");
    view.press("Escape");
    await expect.poll(() => view.find(".hta-dock").hidden).toBe(true);
    expect(view.state.get("selected_event")).toBeNull();
    expect(document.activeElement).toBe(view.root);
    view.press("Escape");
    expect(document.activeElement).not.toBe(view.root);
  });

  test("Escape clears an event before the window around it", async () => {
    const view = await openTimeline();
    view.root.focus();
    drag(view, [300, 110], [600, 200]);
    await expect.poll(() => view.text(".hta-dock")).toContain("Selection");
    pick(view, "AllReduce");
    await expect.poll(() => view.text(".hta-details h3")).toContain("AllReduce");
    const selection = view.state.get("selection");
    expect(selection).not.toBeNull();
    view.press("Escape");
    await expect.poll(() => view.text(".hta-dock")).toContain("Selection");
    expect(view.state.get("selected_event")).toBeNull();
    expect(view.state.get("selection")).toEqual(selection);
    view.press("Escape");
    await expect.poll(() => view.find(".hta-dock").hidden).toBe(true);
    expect(view.state.get("selection")).toEqual(selection);
    view.press("Escape");
    expect(view.state.get("selection")).toBeNull();
  });

  test("the sheet opens with ?, closes with Escape and gives the focus back", () => {
    const view = mount();
    view.root.focus();
    view.press("?", { shiftKey: true, code: "Slash" });
    expect(view.text(".hta-help h3")).toBe("Keys and gestures");
    view.press("Escape");
    expect(view.root.querySelector(".hta-help")).toBeNull();
    expect(document.activeElement).toBe(view.root);
  });

  test("neighbours, arrows and bookmarks", async () => {
    const view = await openTimeline();
    view.root.focus();
    pick(view, "cudaLaunchKernel");
    await expect.poll(() => view.text(".hta-details h3")).toBe("cudaLaunchKernel");
    const id = (): number => (view.state.get("selected_event") as [number, number])[1];
    const first = id();
    view.press(".");
    await expect.poll(id).toBeGreaterThan(first);
    view.press("ArrowLeft");
    await expect.poll(id).toBe(first);
    await expect.poll(() => view.text(".hta-details")).toContain("Launches");
    view.press("]");
    await expect.poll(() => view.text(".hta-details")).toContain("Launched by");
    const kernel = id();
    view.press("[");
    expect(id()).toBe(first);
    view.press("]");
    await expect.poll(id).toBe(kernel);
    view.state.set("view", [10_000_000, 30_000_000]);
    await expect.poll(() => view.text(".hta-said")).toContain("10.0–30.0 ms");
    view.press("2", { code: "Digit2", ctrlKey: true });
    view.press("0", { code: "Digit0" });
    await expect.poll(() => viewOf(view)).toEqual(view.scene.range);
    view.press("2", { code: "Digit2" });
    await expect.poll(() => viewOf(view)).toEqual([10_000_000, 30_000_000]);
  });

  test("keys that are faster than replies act in order", async () => {
    const view = await openTimeline();
    view.root.focus();
    pick(view, "cudaLaunchKernel");
    await expect.poll(() => view.text(".hta-details h3")).toBe("cudaLaunchKernel");
    const event = () => JSON.stringify(view.state.get("selected_event"));
    const seen = [event()];
    for (let turn = 0; turn < 2; turn += 1) {
      view.press(".");
      await expect.poll(event).not.toBe(seen.at(-1));
      seen.push(event());
    }
    view.press(",");
    view.press(",");
    await expect.poll(event).toBe(seen[0]);
    // The second key acts on the event selected by the first.
    view.press(".");
    view.press("r");
    await expect.poll(() => view.state.get("selection")).not.toBeNull();
    expect(event()).toBe(seen[1]);
    // Escape discards a key whose reply is still pending.
    view.source.held = [];
    view.press(".");
    view.press("Escape");
    view.source.release();
    await expect.poll(event).toBe(seen[1]);
  });

  test("keys act on a view that still moves", async () => {
    const view = await openTimeline();
    view.root.focus();
    pick(view, "AllReduce");
    await expect.poll(() => view.text(".hta-details h3")).toContain("AllReduce");
    const { nav } = view.app;
    view.press("f");
    expect(spanLength(nav.view())).toBeLessThan(spanLength(view.scene.range));
    view.press("f");
    expect(nav.view()).toEqual(view.scene.range);
    view.press("f");
    view.press("z", { ctrlKey: true });
    expect(nav.view()).toEqual(view.scene.range);
  });

  test("each Enter in the search field moves one hit on, however fast", async () => {
    const view = await openTimeline();
    view.press("/");
    const input = view.find(".hta-search input") as HTMLInputElement;
    input.value = "gemm";
    input.dispatchEvent(new InputEvent("input", { bubbles: true }));
    for (let turn = 0; turn < 3; turn += 1) view.press("Enter");
    await expect.poll(() => view.text(".hta-search .hta-count")).toMatch(/^3 of /);
  });

  test("a held key stops when the focus is lost", async () => {
    const view = await openTimeline();
    view.root.focus();
    view.press("w");
    await expect.poll(() => spanLength(viewOf(view)) < spanLength(view.scene.range)).toBe(true);
    const init = { key: "d", code: "KeyD", bubbles: true, cancelable: true };
    view.root.dispatchEvent(new KeyboardEvent("keydown", init));
    view.root.blur();
    // At rest, two frames show the same view.
    await expect
      .poll(async () => {
        const before = viewOf(view)[0];
        for (let turn = 0; turn < 2; turn += 1) await new Promise(requestAnimationFrame);
        return viewOf(view)[0] === before;
      })
      .toBe(true);
  });
});
