/** A saved page: unpack its data and show a timeline, a dashboard or a comparison. */

import { pageAddress } from "../connection/address";
import { type Blocks, canGunzip, readBlock } from "../engine/columns";
import type { PageDocument } from "../engine/document";
import { download } from "../engine/export";
import { EMBEDDED, offerPageSource } from "../engine/job";
import { type DiffDocument, openDiffPage } from "../engine/pairs";
import { PageSource } from "../engine/source";
import { fitToWindow, importText, WidgetHost } from "../host/host";

const PAGE_SOURCE = "page";

const blocks: Blocks = {
  text: (name) => document.getElementById(`hta-${name}`)?.textContent ?? null,
};

async function readText(name: string): Promise<string> {
  return new TextDecoder().decode(await readBlock(blocks, name));
}

async function loadModule(name: string): Promise<{ default: unknown }> {
  return importText(await readText(name));
}

/** Height of the page margins and the collapsed footer. */
const FOOTER_PX = 40;

interface ModelSpec {
  /** Name of the text in the page that holds the module. */
  module: string;
  /** Name of the text in the page that holds the styles. */
  css?: string;
  state: Record<string, unknown>;
}

/** Make a host for the page's models, without Python. */
function makeHost(specs: Readonly<Record<string, ModelSpec>>): WidgetHost {
  const transport = { post: () => undefined, load: loadModule, css: readText };
  const host = new WidgetHost(transport, null, 0);
  for (const [comm, { module, css, state }] of Object.entries(specs)) {
    const data = { state: { ...state, _esm: module, _css: css } };
    host.receive({ type: "comm_open", comm, data });
  }
  return host;
}

async function makeModel(page: PageDocument): Promise<ModelSpec> {
  const shared = { state: "anywidget:state", _scene: page.scene, [EMBEDDED]: PAGE_SOURCE };
  if (page.widget !== "dashboard") {
    const height = window.innerHeight - FOOTER_PX;
    return { module: "timeline.js", css: "widgets.css", state: { ...shared, height } };
  }
  const traits = JSON.parse(await readText("dashboard")) as Record<string, unknown>;
  return { module: "dashboard.js", css: "widgets.css", state: { ...traits, ...shared } };
}

/** Add the page's nonce to new style elements, because the page's policy forbids all others. */
function signStyles(): void {
  const nonce = document.querySelector<HTMLElement>("script[nonce]")?.nonce ?? "";
  type Make = (tag: string, options?: ElementCreationOptions) => HTMLElement;
  const createElement: Make = Reflect.get(document, "createElement").bind(document);
  const makeSigned: Make = (tag, options) => {
    const element = createElement(tag, options);
    if (element instanceof HTMLStyleElement) element.nonce = nonce;
    return element;
  };
  Reflect.set(document, "createElement", makeSigned);
}

async function openDiff(view: HTMLElement): Promise<void> {
  const { traits, scenes, states, source } = await openDiffPage(blocks);
  offerPageSource(PAGE_SOURCE, source);
  const history = { _history: { past: [], future: [] } };
  const host = makeHost({
    left: { module: "state.js", state: { ...history, ...states[0] } },
    right: { module: "state.js", state: { ...history, ...states[1] } },
    view: {
      module: "diff.js",
      css: "widgets.css",
      state: {
        ...traits,
        left_state: "anywidget:left",
        right_state: "anywidget:right",
        _scenes: scenes,
        [EMBEDDED]: PAGE_SOURCE,
        _address: fileAddress(),
      },
    },
  });
  followFragment(host);
  view.textContent = "";
  await host.show("view", view);
}

const fileAddress = (panels: unknown = []) => pageAddress(panels as string[], "in this file");

/** Pass the address to the view when the user changes it in this page. */
function followFragment(host: WidgetHost, panels?: unknown): void {
  window.addEventListener("hashchange", () => {
    void host.model("view").then((model) => model.setLocally("_address", fileAddress(panels)));
  });
}

async function openView(view: HTMLElement): Promise<void> {
  if (!canGunzip()) {
    throw new Error(
      "This browser cannot unpack the page: it lacks DecompressionStream. " +
        "It is available in Chrome and Edge 80, Firefox 113 and Safari 16.4, and in later versions.",
    );
  }
  const page = JSON.parse(await readText("document")) as PageDocument | DiffDocument;
  if (page.widget === "diff") {
    await openDiff(view);
    return;
  }
  const isDashboard = page.widget === "dashboard";
  offerPageSource(PAGE_SOURCE, new PageSource(page, blocks, download));
  const spec = await makeModel(page);
  const { panels } = spec.state;
  Object.assign(spec.state, { _address: fileAddress(panels), _fills: true });
  const host = makeHost({
    state: { module: "state.js", state: { _history: { past: [], future: [] }, ...page.state } },
    view: spec,
  });
  followFragment(host, panels);
  view.textContent = "";
  await host.show("view", view);
  if (!isDashboard) fitToWindow(view, await host.model("view"), () => FOOTER_PX);
}

const view = document.getElementById("hta-view");
if (view !== null) {
  signStyles();
  openView(view).catch((error: unknown) => {
    view.textContent = `This page cannot be shown. ${error instanceof Error ? error.message : String(error)}`;
    view.setAttribute("role", "alert");
  });
}
