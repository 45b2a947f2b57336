/** Asks for a file's name and lets the kernel write it. */

import { asError, isAbort } from "../contract";
import { button } from "../app/controls";
import { fill, h } from "../app/dom";
import type { Source } from "../contract";
import { formatBytes } from "../draw/format";

export interface FormLook {
  op: string;
  request: Record<string, unknown>;
  path: string;
  about: string;
}

export function saveForm(source: Source, signal: AbortSignal, look: FormLook): HTMLElement {
  const path = h("input", {
    type: "text",
    class: "hta-input hta-path",
    "aria-label": "File to write, on the kernel's machine",
    spellcheck: "false",
    value: look.path,
    on: { keydown: (event: KeyboardEvent) => event.key === "Enter" && run() },
  });
  const said = h("div", { class: "hta-result", role: "status", "aria-live": "polite" });
  const write = button({ text: "Write file", class: "hta-primary", press: () => run() });
  let busy = false;
  function run(): void {
    if (busy) return;
    busy = true;
    write.setAttribute("aria-busy", "true");
    fill(said, h("span", { class: "hta-note" }, "Writing…"));
    source
      .ask(look.op, { ...look.request, path: path.value.trim() }, signal)
      .then(({ reply }) => {
        const size = typeof reply.bytes === "number" ? `, ${formatBytes(reply.bytes)}` : "";
        fill(said, h("b", { class: "hta-ok-text" }, `Wrote ${String(reply.path)}`), size, ".");
      })
      .catch((error: unknown) => {
        if (!isAbort(error))
          fill(said, h("span", { class: "hta-error-text" }, asError(error).message));
      })
      .finally(() => {
        busy = false;
        write.removeAttribute("aria-busy");
      });
  }
  const gone = source.status === "none";
  return h(
    "div",
    { class: "hta-save-form" },
    h("p", { class: "hta-note" }, look.about),
    gone
      ? h("p", {}, "There is no kernel that could write it.")
      : h("div", { class: "hta-field-row" }, path, write),
    said,
  );
}
