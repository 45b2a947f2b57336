/** The form that writes a window to a new trace file. */

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { download } from "../../engine/export";
import { FULL_SELECTION, windowSelection } from "../../protocol/selection";
import {
  asError,
  type Exported,
  isAbort,
  type Scene,
  type SelectionJson,
  type Span,
} from "../../protocol/source";
import { Button, Checkbox, CloseButton, type Copy } from "../../ui/controls";
import { formatBytes, formatCount, formatDuration, plural } from "../../ui/formats";
import type { TimelineContext } from "../context";
import { type ExportChoice, exportCode, rowsText, selectionHead, spanText } from "../text";

interface ExportContext {
  scene: Scene;
  selection: SelectionJson | null;
  view: Span;
}

type ExportContent = "selection" | "view" | "all";

/** Radio buttons with the same name form a group across the whole page. */
let groups = 0;

/** Return a job's name as a part of file names. */
function fileName(title: string): string {
  const name = title
    .replace(/\.(pt\.trace\.)?json(\.gz)?$/i, "")
    .replace(/[^\p{L}\p{N}._-]+/gu, "-")
    .replace(/^[-.]+|[-.]+$/g, "");
  return name === "" ? "trace" : name;
}

/** Return a file name for a job, such as `ddp_8rank-window.trace.json.gz`. */
export function defaultPath(title: string): string {
  return `${fileName(title)}-window.trace.json.gz`;
}

interface ExportHost {
  readonly ctx: TimelineContext;
  readonly copy: Copy;
  svg(): Promise<string>;
}

/** The form's state, which is kept while the form is closed. */
export class ExportForm {
  readonly content = signal<ExportContent>("view");
  /** Null until the user enters a path. */
  readonly path = signal<string | null>(null);
  readonly clip = signal(false);
  readonly launches = signal(true);
  readonly counters = signal(false);
  readonly scrub = signal(false);
  readonly isBusy = signal(false);
  readonly result = signal<VNode | null>(null);
  readonly group = `hta-export-${(groups += 1)}`;

  constructor(readonly host: ExportHost) {}

  /** Open the form, preselecting the selection if there is one. */
  open(selection: SelectionJson | null): void {
    if (selection !== null) this.content.value = "selection";
    else if (this.content.value === "selection") this.content.value = "view";
    this.result.value = null;
  }

  pathIn(scene: Scene): string {
    return this.path.value ?? defaultPath(scene.title);
  }

  choice({ scene, selection, view }: ExportContext): ExportChoice {
    const window = windowSelection(view, { ranks: null, tracks: null });
    return {
      path: this.pathIn(scene).trim(),
      selection: { selection, view: window, all: null }[this.content.value],
      clip: this.clip.value,
      launches: this.launches.value && this.content.value !== "all",
      counters: this.counters.value,
      scrub: this.scrub.value,
    };
  }

  write(choice: ExportChoice): void {
    if (this.isBusy.value) return;
    if (choice.path === "") {
      this.showResult("hta-error-text", "Give the file a name.");
      return;
    }
    this.isBusy.value = true;
    this.showResult("hta-note", "Writing…");
    const { source, signal: abortSignal } = this.host.ctx;
    source
      .ask("export", { ...choice, selection: choice.selection ?? FULL_SELECTION }, abortSignal)
      .then(({ reply }) => this.report(reply))
      .catch((error: unknown) => this.fail(error))
      .finally(() => (this.isBusy.value = false));
  }

  savePicture(scene: Scene): void {
    const name = `${fileName(scene.title)}.svg`;
    this.host
      .svg()
      .then((text) => {
        const file = new Blob([text], { type: "image/svg+xml" });
        download(name, file);
        this.showDone(`Made ${name}`, formatBytes(file.size));
      })
      .catch((error: unknown) => this.fail(error));
  }

  private report({ path, events, flows, bytes, dropped }: Exported): void {
    const leftOut =
      dropped > 0 ? ` (${formatCount(dropped)} left out: one end is not in the file)` : "";
    const arrows = `${plural(flows, "arrow")}${leftOut}`;
    const details = [plural(events, "event"), arrows, formatBytes(bytes)].join(", ");
    this.showDone(`Wrote ${path}`, details);
  }

  private showDone(label: string, details: string): void {
    this.result.value = (
      <span class="hta-ok-text">
        <b>{label}</b>
        {`: ${details}. `}
      </span>
    );
  }

  private fail(error: unknown): void {
    if (!isAbort(error)) this.showResult("hta-error-text", asError(error).message);
  }

  private showResult(tone: string, text: string): void {
    this.result.value = <span class={tone}>{text}</span>;
  }
}

export function ExportPanel(props: { form: ExportForm; of: ExportContext; close(): void }) {
  const { form, of, close } = props;
  const path = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => path.current!.select(), []);
  const write = (): void => {
    form.write(form.choice(of));
    if (form.choice(of).path === "") path.current!.focus();
  };
  return (
    <div class="hta-panel hta-export">
      <div class="hta-head">
        <h3>Export as a trace</h3>
        <span class="hta-note hta-grow">
          Chrome trace JSON: opens here, in Perfetto and in HTA.
        </span>
        <CloseButton close={close} />
      </div>
      <div class="hta-form">
        <span class="hta-label">What</span>
        <ContentChoice form={form} of={of} />
        <span class="hta-label">File</span>
        <input
          ref={path}
          type="text"
          class="hta-input hta-path"
          aria-label="File to write; without a suffix, a folder with one file per rank"
          spellcheck={false}
          data-first
          value={form.pathIn(of.scene)}
          onInput={({ currentTarget }) => (form.path.value = currentTarget.value)}
          onKeyDown={({ key }) => key === "Enter" && write()}
        />
        <span class="hta-label">With</span>
        <div class="hta-checks">
          {SWITCHES.map(([name, text, hint]) => (
            <Checkbox key={name} text={text} hint={hint} on={form[name]} />
          ))}
        </div>
        <span />
        <div class="hta-field-row">
          <Button text="Write file" class="hta-primary" off={form.isBusy.value} press={write} />
          <Button
            text="Copy as Python"
            press={() => form.host.copy(exportCode(form.choice(of), of.scene.clock), "Python")}
          />
          <Button text="SVG of this view" press={() => form.savePicture(of.scene)} />
          <div class="hta-result" role="status" aria-live="polite">
            {form.result}
          </div>
        </div>
      </div>
    </div>
  );
}

function ContentChoice({ form, of }: { form: ExportForm; of: ExportContext }) {
  return (
    <div class="hta-radios" role="radiogroup" aria-label="What to export">
      {exportOptions(of).map(([option, text]) => (
        <label key={option} class="hta-check">
          <input
            type="radio"
            name={form.group}
            checked={option === form.content.value}
            onChange={() => (form.content.value = option)}
          />
          <span>{text}</span>
        </label>
      ))}
    </div>
  );
}

type ExportSwitch = "launches" | "clip" | "counters" | "scrub";

/** Switches for what is written in addition to the events, or left out. */
const SWITCHES: readonly (readonly [ExportSwitch, text: string, hint: string])[] = [
  [
    "launches",
    "launches and operators",
    "Also write the calls that launched the events, and the operators around them",
  ],
  [
    "clip",
    "cut events at the edges",
    "Cut events at the edges of the window, instead of writing all of them",
  ],
  ["counters", "counters in the window", "Keep the samples of counters inside the window"],
  [
    "scrub",
    "without host names, users and paths",
    "Remove host names, users, environment variables and paths",
  ],
];

function exportOptions({ scene, selection, view }: ExportContext): [ExportContent, string][] {
  const options: [ExportContent, string][] = [
    ["view", `The view: ${spanText(view)} (${formatDuration(view[1] - view[0])}), all ranks`],
    ["all", `Everything: ${formatCount(scene.events)} events`],
  ];
  if (selection === null) return options;
  const text = `${selectionHead(selection, scene)}, ${rowsText(selection, scene)}`;
  return [["selection", text], ...options];
}
