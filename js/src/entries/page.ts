/** A saved page: unpacks what it holds, and shows the timeline or dashboard without a kernel. */

import { type Blocks, canGunzip, readBlock } from "../engine/columns";
import type { PageDocument } from "../engine/document";
import { download } from "../engine/export";
import { EMBEDDED, offerPageSource } from "../engine/job";
import { type ModelSpec, PageHost, type PageModel } from "../engine/models";
import { type DiffDocument, openHeld } from "../engine/pairs";
import { PageSource } from "../engine/source";

const SOURCE = "page";

const blocks: Blocks = {
  text: (name) => document.getElementById(`hta-${name}`)?.textContent ?? null,
};

async function readText(name: string): Promise<string> {
  return new TextDecoder().decode(await readBlock(blocks, name));
}

async function loadModule(name: string): Promise<unknown> {
  const blob = new Blob([await readText(name)], { type: "text/javascript" });
  const url = URL.createObjectURL(blob);
  try {
    const module = (await import(url)) as { default: unknown };
    return module.default;
  } finally {
    URL.revokeObjectURL(url);
  }
}

const LEAST_PX = 320;
/** Margins of the page and the folded footer. */
const FOOTER_PX = 40;

/** Let timeline, open panels and footer share the window; panels take what they need. */
function fitToWindow(view: HTMLElement, timeline: PageModel): void {
  const fit = (): void => {
    const panels = Math.max(view.offsetHeight - Number(timeline.get("height")), 0);
    timeline.set("height", Math.max(LEAST_PX, window.innerHeight - FOOTER_PX - panels));
  };
  fit();
  window.addEventListener("resize", fit);
  new ResizeObserver(fit).observe(view);
}

async function modelOf(page: PageDocument): Promise<ModelSpec> {
  const shared = { state: "anywidget:state", _scene: page.scene, [EMBEDDED]: SOURCE };
  if (page.widget !== "dashboard") {
    const height = Math.max(LEAST_PX, window.innerHeight - FOOTER_PX);
    return { module: "timeline.js", state: { ...shared, height } };
  }
  const traits = JSON.parse(await readText("dashboard")) as Record<string, unknown>;
  return { module: "dashboard.js", state: { ...traits, ...shared, bokehjs: "anywidget:bokeh" } };
}

/** The page's policy allows only styles that carry its nonce; Bokeh makes some of its own. */
function signStyles(): void {
  const nonce = document.querySelector<HTMLElement>("script[nonce]")?.nonce ?? "";
  type Make = (tag: string, options?: ElementCreationOptions) => HTMLElement;
  const make: Make = Reflect.get(document, "createElement").bind(document);
  const signed: Make = (tag, options) => {
    const element = make(tag, options);
    if (element instanceof HTMLStyleElement) element.nonce = nonce;
    return element;
  };
  Reflect.set(document, "createElement", signed);
}

async function addStyle(name: string): Promise<void> {
  const style = document.createElement("style");
  style.textContent = await readText(name);
  document.head.append(style);
}

async function openDiff(view: HTMLElement): Promise<void> {
  await addStyle("diff.css");
  const { traits, scenes, states, source } = await openHeld(blocks);
  offerPageSource(SOURCE, source);
  const history = { _history: { past: [], future: [] } };
  const host = new PageHost(
    {
      left: { module: "state.js", state: { ...history, ...states[0] } },
      right: { module: "state.js", state: { ...history, ...states[1] } },
      view: {
        module: "diff.js",
        state: {
          ...traits,
          left_state: "anywidget:left",
          right_state: "anywidget:right",
          _scenes: scenes,
          [EMBEDDED]: SOURCE,
        },
      },
    },
    loadModule,
  );
  view.textContent = "";
  await host.show("view", view);
}

async function open(view: HTMLElement): Promise<void> {
  if (!canGunzip()) {
    throw new Error(
      "This browser cannot unpack the page: it lacks DecompressionStream. " +
        "Chrome and Edge 80, Firefox 113 and Safari 16.4 have it, and all later ones.",
    );
  }
  const page = JSON.parse(await readText("document")) as PageDocument | DiffDocument;
  if (page.widget === "diff") {
    await openDiff(view);
    return;
  }
  const isDashboard = page.widget === "dashboard";
  await addStyle(isDashboard ? "dashboard.css" : "timeline.css");
  offerPageSource(SOURCE, new PageSource(page, blocks, download));
  const host = new PageHost(
    {
      state: { module: "state.js", state: { _history: { past: [], future: [] }, ...page.state } },
      view: await modelOf(page),
      // Unpacked when the charts ask for it, which is after all else is drawn.
      bokeh: { module: "bokeh.js", state: {} },
    },
    loadModule,
  );
  view.textContent = "";
  await host.show("view", view);
  if (!isDashboard) fitToWindow(view, host.models.view!);
}

const view = document.getElementById("hta-view");
if (view !== null) {
  signStyles();
  open(view).catch((error: unknown) => {
    view.textContent = `This page cannot be shown. ${error instanceof Error ? error.message : String(error)}`;
    view.setAttribute("role", "alert");
  });
}
