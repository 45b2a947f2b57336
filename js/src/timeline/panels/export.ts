/** Writing a window as a new trace file. */

import { download } from "../../engine/export";
import { EVERYTHING, windowSelection } from "../../protocol/selection";
import {
  asError,
  type Exported,
  isAbort,
  type Scene,
  type SelectionJson,
  type Source,
  type Span,
} from "../../protocol/source";
import { button, checkbox, closeButton, type Copy } from "../../ui/controls";
import { type Child, fill, h } from "../../ui/dom";
import { formatBytes, formatCount, formatDuration, plural } from "../../ui/formats";
import { type ExportChoice, exportCode, rowsWords, selectionHead, spanText } from "../text";

interface ExportActions {
  close(): void;
  copy: Copy;
  /** The view as an SVG picture. */
  svg(): Promise<string>;
}

interface ExportState {
  scene: Scene;
  selection: SelectionJson | null;
  view: Span;
}

type What = "selection" | "view" | "all";

/** Radio buttons of one name are one group in the whole page. */
let groups = 0;

/** A job's name as a part of file names. */
function fileName(title: string): string {
  const name = title
    .replace(/\.(pt\.trace\.)?json(\.gz)?$/i, "")
    .replace(/[^\p{L}\p{N}._-]+/gu, "-")
    .replace(/^[-.]+|[-.]+$/g, "");
  return name === "" ? "trace" : name;
}

/** A file name from a job's name: `ddp_8rank-window.json.gz`. */
export function defaultPath(title: string): string {
  return `${fileName(title)}-window.json.gz`;
}

export class ExportPanel {
  readonly name = "Export";
  readonly el: HTMLElement;
  private readonly path: HTMLInputElement;
  private readonly clip = checkbox(
    "cut events at the edges",
    "Cut events at the window's edges; otherwise they stay whole",
  );
  private readonly counters = checkbox(
    "counters in the window",
    "Keep the samples of counters inside the window",
  );
  private readonly scrub = checkbox(
    "without host names, users and paths",
    "Scrubs host names, users, environment and paths",
  );
  private readonly choice: HTMLElement;
  private readonly result: HTMLElement;
  private readonly write: HTMLButtonElement;
  private state: ExportState | null = null;
  private what: What = "view";
  private readonly group = `hta-export-${(groups += 1)}`;
  private touched = false;
  private busy = false;

  constructor(
    private readonly source: Source,
    private readonly actions: ExportActions,
    private readonly signal: AbortSignal,
  ) {
    this.path = h("input", {
      type: "text",
      class: "hta-input hta-path",
      "aria-label": "File to write; without a suffix, a folder with one file per rank",
      spellcheck: "false",
      on: {
        input: () => {
          this.touched = true;
        },
        keydown: (event: KeyboardEvent) => {
          if (event.key === "Enter") this.run();
        },
      },
    });
    this.choice = h("div", {
      class: "hta-radios",
      role: "radiogroup",
      "aria-label": "What to export",
    });
    this.result = h("div", { class: "hta-result", role: "status", "aria-live": "polite" });
    this.write = button({ text: "Write file", class: "hta-primary", press: () => this.run() });
    this.el = h("div", { class: "hta-panel hta-export" }, this.head(), this.form());
  }

  show(state: ExportState): void {
    const first = this.state === null;
    this.state = state;
    if (!this.touched) this.path.value = defaultPath(state.scene.title);
    if (first || this.what === "selection" || state.selection !== null) {
      this.what = state.selection !== null ? "selection" : this.what === "all" ? "all" : "view";
    }
    this.printChoice();
    fill(this.result);
  }

  focus(): void {
    this.path.focus({ preventScroll: true });
    this.path.select();
  }

  private head(): HTMLElement {
    return h(
      "div",
      { class: "hta-head" },
      h("h3", {}, "Export as a trace"),
      h(
        "span",
        { class: "hta-note hta-grow" },
        "Chrome trace JSON: opens here, in Perfetto and in HTA.",
      ),
      closeButton(this.actions.close, ""),
    );
  }

  private form(): HTMLElement {
    return h(
      "div",
      { class: "hta-form" },
      h("span", { class: "hta-label" }, "What"),
      this.choice,
      h("span", { class: "hta-label" }, "File"),
      this.path,
      h("span", { class: "hta-label" }, "With"),
      h("div", { class: "hta-checks" }, this.clip.el, this.counters.el, this.scrub.el),
      h("span", {}),
      h(
        "div",
        { class: "hta-field-row" },
        this.write,
        button({
          text: "Copy as Python",
          press: () => this.actions.copy(exportCode(this.read()), "Python"),
        }),
        button({ text: "SVG of this view", press: () => this.picture() }),
        this.result,
      ),
    );
  }

  private printChoice(): void {
    const { state } = this;
    if (state === null) return;
    const { scene, selection, view } = state;
    const options: [What, string][] = [];
    if (selection !== null) {
      options.push([
        "selection",
        `${selectionHead(selection, scene)}, ${rowsWords(selection, scene)}`,
      ]);
    }
    options.push([
      "view",
      `What is in view: ${spanText(view)} (${formatDuration(view[1] - view[0])}), all ranks`,
    ]);
    options.push(["all", `Everything: ${formatCount(scene.events)} events`]);
    fill(
      this.choice,
      ...options.map(([what, text]) => {
        const input = h("input", {
          type: "radio",
          name: this.group,
          on: {
            change: () => {
              this.what = what;
            },
          },
        });
        input.checked = what === this.what;
        return h("label", { class: "hta-check" }, input, h("span", {}, text));
      }),
    );
  }

  private read(): ExportChoice {
    const { state } = this;
    const selection =
      state === null || this.what === "all"
        ? null
        : this.what === "selection"
          ? state.selection
          : windowSelection(state.view, { ranks: null, tracks: null });
    return {
      path: this.path.value.trim(),
      selection,
      clip: this.clip.input.checked,
      counters: this.counters.input.checked,
      scrub: this.scrub.input.checked,
    };
  }

  private run(): void {
    if (this.busy) return;
    const choice = this.read();
    if (choice.path === "") {
      this.say("hta-error-text", "Give the file a name.");
      this.path.focus();
      return;
    }
    this.busy = true;
    this.write.setAttribute("aria-busy", "true");
    this.say("hta-note", "Writing…");
    this.source
      .ask("export", { ...choice, selection: choice.selection ?? EVERYTHING }, this.signal)
      .then(({ reply }) => this.report(reply))
      .catch((error: unknown) => {
        if (!isAbort(error)) this.say("hta-error-text", asError(error).message);
      })
      .finally(() => {
        this.busy = false;
        this.write.removeAttribute("aria-busy");
      });
  }

  private picture(): void {
    if (this.state === null) return;
    const name = `${fileName(this.state.scene.title)}.svg`;
    this.actions
      .svg()
      .then((text) => {
        const file = new Blob([text], { type: "image/svg+xml" });
        download(name, file);
        this.say("hta-ok-text", h("b", {}, `Made ${name}`), `: ${formatBytes(file.size)}. `);
      })
      .catch((error: unknown) => {
        if (!isAbort(error)) this.say("hta-error-text", asError(error).message);
      });
  }

  private report({ path, events, flows, bytes, dropped }: Exported): void {
    const parts = [plural(events, "event"), plural(flows, "arrow"), formatBytes(bytes)];
    if (dropped > 0)
      parts.push(`${formatCount(dropped)} left out because their other end is outside`);
    this.say("hta-ok-text", h("b", {}, `Wrote ${path}`), `: ${parts.join(", ")}. `);
  }

  private say(look: string, ...text: Child[]): void {
    fill(this.result, h("span", { class: look }, ...text));
  }
}
