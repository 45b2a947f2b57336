/** A saved page: unpacks what it holds, and shows the timeline without a kernel. */

import { type Blocks, canGunzip, readBlock } from "../page/bytes";
import type { PageDocument } from "../page/document";
import { PageHost } from "../page/host";
import { EMBEDDED, offerPageSource } from "../page/index";
import { PageSource } from "../page/source";

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

function download(name: string, file: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // The download has begun when the click was handled; the file may be forgotten after it.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Height that is left for the timeline. */
function heightOf(view: HTMLElement): number {
  const others = document.body.scrollHeight - view.offsetHeight;
  return Math.max(320, window.innerHeight - Math.min(others, 160) - 8);
}

async function open(view: HTMLElement): Promise<void> {
  if (!canGunzip()) {
    throw new Error(
      "This browser cannot unpack the page: it lacks DecompressionStream. " +
        "Chrome and Edge 80, Firefox 113 and Safari 16.4 have it, and all later ones.",
    );
  }
  const page = JSON.parse(await readText("document")) as PageDocument;
  const style = document.createElement("style");
  style.textContent = await readText("timeline.css");
  document.head.append(style);
  offerPageSource(SOURCE, new PageSource(page, blocks, download));
  const host = new PageHost(
    {
      state: { module: "state.js", state: { _history: { past: [], future: [] }, ...page.state } },
      timeline: {
        module: "timeline.js",
        state: {
          state: "anywidget:state",
          height: heightOf(view),
          _scene: page.scene,
          [EMBEDDED]: SOURCE,
        },
      },
    },
    loadModule,
  );
  window.addEventListener("resize", () => host.models.timeline?.set("height", heightOf(view)));
  view.textContent = "";
  await host.show("timeline", view);
}

const view = document.getElementById("hta-view");
if (view !== null) {
  open(view).catch((error: unknown) => {
    view.textContent = `This page cannot be shown. ${error instanceof Error ? error.message : String(error)}`;
    view.setAttribute("role", "alert");
  });
}
