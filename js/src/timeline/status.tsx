/** The status line, which includes the state of the connection. */

import { computed, signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { HybridSource, Progress } from "../connection/answering";
import { isSameJson } from "../connection/store";
import type { ClockFacts, Source } from "../protocol/source";
import { Icon, RichTextSpan } from "../ui/controls";
import { onSignal } from "../ui/react";
import { formatBytes, formatCount, formatDuration, plural } from "../ui/formats";
import { outermostElement, visibleRect } from "../ui/placing";
import type { RichText } from "../ui/text";
import { throttle, type TimelineContext } from "./context";
import { plainText } from "./text";

/** Sources of messages, most urgent first. */
const LAYERS = ["flash", "brush", "kernel", "area", "search", "event", "view"] as const;
type Layer = (typeof LAYERS)[number];

const ANNOUNCE_DELAY_MS = 1000;

const ZOOM: RichText = [{ key: "W" }, " ", { key: "S" }, " zoom · "];
const PAN: RichText = [{ key: "A" }, " ", { key: "D" }, " pan · "];
const SEARCH: RichText = [{ key: "/" }, " search · "];
const KEYS: RichText = [{ key: "?" }, " keys"];
const LEAVE: RichText = [" · ", { key: "Esc" }, " ", { key: "Esc" }, " leave"];

/** Hints about keys, from long to short. */
const HINTS: readonly RichText[] = [
  [...ZOOM, ...PAN, ...SEARCH, ...KEYS, ...LEAVE],
  [...ZOOM, ...KEYS, ...LEAVE],
  [...KEYS, ...LEAVE],
  KEYS,
];

export interface KernelStatus {
  badge: string;
  text: RichText;
  isWarning: boolean;
}

const KERNEL_STATUSES: Record<Exclude<Source["status"], "live">, KernelStatus> = {
  busy: {
    badge: "Kernel busy",
    text: ["Zoom and pan work; detail follows when the cell ends."],
    isWarning: true,
  },
  none: {
    badge: "Saved view",
    text: ["No kernel: the page shows its stored data."],
    isWarning: false,
  },
};

/** Return the badge's text for the current clock, and its explanatory title. */
function clockTexts(
  { is_fitted, apart_ns, residual_ns, drift_ns = 0 }: ClockFacts,
  canSwitch: boolean,
): { badge: string; title: string } {
  const [apart, residual] = [formatDuration(apart_ns), formatDuration(residual_ns)];
  const drift = drift_ns === 0 ? null : formatDuration(drift_ns);
  const [name, other] = is_fitted ? ["fitted", "recorded"] : ["recorded", "fitted"];
  const driftText =
    drift === null
      ? ""
      : `, but the clocks drift: at the ends of the trace, lanes are up to ${drift} apart. ` +
        "Waits, late ranks and panels are corrected for the drift";
  const more = canSwitch
    ? `Press to draw the ${other} clock.`
    : `This page has only the ${name} clock.`;
  const title =
    `Drawn on the ${name} clock: recorded clocks of ranks differ by up to ${apart}; ` +
    `on the fitted clock their collectives end within ${residual}${driftText}. ${more}`;
  const fittedText = drift === null ? `fitted ±${residual}` : `fitted, drift up to ${drift}`;
  return { badge: `clock: ${is_fitted ? fittedText : `recorded, ${apart} apart`}`, title };
}

export type ClockName = "recorded" | "fitted";

export interface StatusOptions {
  /** Called when the user selects a clock; missing if no kernel can provide another clock. */
  setClock?: ((clock: ClockName) => void) | undefined;
  linkedPanel?: {
    /** Describe the status of the source; null for the default text. */
    kernelStatus(): KernelStatus | null;
  };
}

export class StatusLine {
  /** Text about background work. */
  readonly asideText = signal("");
  /** Number of displayed ranks and of all ranks. They differ if a linked panel selects ranks. */
  readonly ranks = signal<readonly [shown: number, all: number]>([0, 0]);
  /** The disagreement of the recorded clocks; null until it is known. */
  readonly clocks = signal<ClockFacts | null>(null);
  /** Whether to show hints about keys: from receiving the focus until a key is pressed. */
  readonly isHinting = signal(false);
  /** Text about a source other than a live kernel. */
  readonly kernel = signal<KernelStatus | null>(null);
  readonly announcement = signal("");
  private readonly messages = signal<Partial<Record<Layer, RichText>>>({});
  private readonly layer = computed(() => LAYERS.find((layer) => layer in this.messages.value));
  /** The most urgent message. */
  readonly words = computed(() => this.messages.value[this.layer.value ?? "view"] ?? []);
  /** A message that is shown briefly, such as the result of a command. */
  readonly flash = computed(() => this.messages.value.flash ?? null);
  readonly hasHint = computed(
    () => this.isHinting.value && this.layer.value !== "flash" && this.layer.value !== "brush",
  );
  private flashTimer = 0;

  constructor(
    readonly app: { ctx: TimelineContext; panels: { openProblems(anchor: HTMLElement): void } },
    readonly options: StatusOptions,
  ) {
    const { signal: abortSignal, source, root } = app.ctx;
    const announce = throttle(
      ANNOUNCE_DELAY_MS,
      abortSignal,
      () => (this.announcement.value = plainText(this.words.value)),
    );
    onSignal(() => this.words.value, announce, abortSignal);
    onSignal(this.isHinting, (on) => root.classList.toggle("hta-hinting", on), abortSignal);
    abortSignal.addEventListener("abort", () => clearTimeout(this.flashTimer), { once: true });
    onSignal(
      () =>
        source.status === "live"
          ? null
          : (options.linkedPanel?.kernelStatus() ?? KERNEL_STATUSES[source.status]),
      (status) => {
        this.kernel.value = status;
        // The badge shows that a view is saved, so the line is free for other texts.
        this.setMessage("kernel", source.status === "busy" ? (status?.text ?? null) : null);
      },
      abortSignal,
    );
  }

  /** Set the message of a layer; null clears it. */
  setMessage(layer: Layer, text: RichText | null): void {
    const { [layer]: before = null, ...others } = this.messages.value;
    if (!isSameJson(before, text))
      this.messages.value = { ...others, ...(text && { [layer]: text }) };
  }

  flashMessage(text: RichText, ms = 2000): void {
    clearTimeout(this.flashTimer);
    this.setMessage("flash", text);
    this.flashTimer = window.setTimeout(() => this.setMessage("flash", null), ms);
  }
}

export function Status({ line }: { line: StatusLine }) {
  return (
    <div class="hta-status">
      <KernelBadge line={line} />
      <StatusMessage line={line} />
      <div class="hta-hidden" role="status" aria-live="polite">
        {line.announcement}
      </div>
      {line.asideText.value !== "" && <span class="hta-note">{line.asideText}</span>}
      <RanksShown line={line} />
      <ClockBadge line={line} />
      <TruthBadge line={line} />
      <Flash line={line} />
    </div>
  );
}

const TOOLBAR_PX = 36;

/** Shows a command's result at the top of the visible part if the line is out of sight. */
function Flash({ line }: { line: StatusLine }) {
  const place = useRef<HTMLDivElement>(null);
  const text = line.flash.value;
  useLayoutEffect(() => {
    const el = place.current;
    if (el === null) return;
    const visible = visibleRect(outermostElement(line.app.ctx.root));
    const { top, bottom } = el.parentElement!.getBoundingClientRect();
    el.hidden = top >= visible.top && bottom <= visible.bottom;
    if (el.hidden) return;
    const offset = visible.top + TOOLBAR_PX + 4 - el.offsetParent!.getBoundingClientRect().top;
    el.style.top = `${offset}px`;
  }, [text]);
  if (text === null) return null;
  return (
    <div ref={place} class="hta-flash" aria-hidden="true">
      <RichTextSpan words={text} />
    </div>
  );
}

function StatusMessage({ line }: { line: StatusLine }) {
  const content = line.words.value;
  const text = plainText(content);
  return (
    <div class="hta-words" title={text}>
      <span class="hta-said">
        <RichTextSpan words={content} />
      </span>
      {line.hasHint.value && <KeyHint key={text} />}
    </div>
  );
}

/** Shows the longest hint that does not truncate the message before it, or the shortest hint. */
function KeyHint() {
  const place = useRef<HTMLSpanElement>(null);
  const hintIndex = useSignal(0);
  useLayoutEffect(() => {
    const { scrollWidth, clientWidth } = place.current!.previousElementSibling!;
    if (scrollWidth > clientWidth && hintIndex.value < HINTS.length - 1) hintIndex.value += 1;
  });
  return (
    <span ref={place} class="hta-hint">
      <RichTextSpan words={HINTS[hintIndex.value]!} />
    </span>
  );
}

/** The state of the connection, or what a saved page contains. A press explains it. */
function KernelBadge({ line }: { line: StatusLine }) {
  const status = line.kernel.value;
  if (status === null) return null;
  const { source, scene } = line.app.ctx;
  const { embedded } = scene;
  const explanation = embedded === undefined ? status.text : [embedded.text];
  const title = `${embedded === undefined ? "" : `${status.badge}. `}${plainText(explanation)}`;
  const badge = `${source.status === "busy" ? "● " : ""}${status.badge}`;
  return (
    <button
      type="button"
      class={`hta-badge hta-kernel ${status.isWarning ? "hta-warn" : ""}`}
      title={title}
      onClick={() => line.flashMessage(explanation, 5000)}
    >
      {embedded?.level === "partial" ? <span>{title}</span> : badge}
    </button>
  );
}

function RanksShown({ line: { ranks, app } }: { line: StatusLine }) {
  const [shownRanks, all] = ranks.value;
  if (shownRanks === all) return null;
  return (
    <button
      type="button"
      class="hta-ranks-shown"
      title="Show all ranks; the selection stays"
      onClick={() => app.ctx.shared.set({ ranks_from: "timeline" })}
    >
      {`${formatCount(shownRanks)} of ${plural(all, "rank")} shown · `}
      <b>Show all</b>
    </button>
  );
}

/** Names the clock of the displayed times, and allows switching it. */
function ClockBadge({ line }: { line: StatusLine }) {
  const clocks = line.clocks.value;
  if (clocks === null || !(clocks.is_off || clocks.is_fitted)) return null;
  const { setClock } = line.options;
  const { badge, title } = clockTexts(clocks, setClock !== undefined);
  const change = (): void => {
    if (setClock === undefined || line.app.ctx.source.status === "none") {
      line.flashMessage([clockTexts(clocks, false).title], 5000);
      return;
    }
    const other = clocks.is_fitted ? "recorded" : "fitted";
    setClock(other);
    line.flashMessage([`Laying out the ${other} clock …`]);
  };
  return (
    <button
      type="button"
      class="hta-badge hta-clock"
      title={title}
      aria-pressed={clocks.is_fitted}
      onClick={change}
    >
      <span class="hta-if-wide">{badge}</span>
      <span class="hta-if-tight">{badge.split(",")[0]}</span>
    </button>
  );
}

function TruthBadge({ line: { app, kernel } }: { line: StatusLine }) {
  const { scene, source } = app.ctx;
  const { truth } = scene;
  // Without a kernel and with only part of the data, the badge could be wrong.
  if (kernel.value?.isWarning === true && source.status === "none") return null;
  const ok = truth.level === "ok";
  const text = truth.text.replace(/^[✓⚠]\s*/u, "");
  return (
    <button
      type="button"
      class={`hta-badge ${ok ? "hta-ok" : "hta-warn"}`}
      title={`${truth.text}. Click for what was skipped, repaired or guessed.`}
      onClick={({ currentTarget }) => app.panels.openProblems(currentTarget)}
    >
      <Icon name={ok ? "check" : "warn"} />
      <span class="hta-if-wide">{text}</span>
      <span class="hta-if-tight">{text.split(/[,·]/)[0]?.trim()}</span>
    </button>
  );
}

/** Return a text about the source of replies; null if it is a live kernel. */
export function kernelStatusOf(source: HybridSource): KernelStatus | null {
  const { status, pageExtent: extent, terms } = source;
  if (status === "live") return null;
  const { who, badge, free, again } = terms;
  const isGone = status === "none";
  const state = isGone ? "gone" : "busy";
  const lacksData = isGone ? extent === "nothing" : extent !== "all";
  if (lacksData) {
    const text = isGone
      ? `${who} is gone, and the page holds no data yet. ${again}`
      : `Zoom and pan work; detail follows when ${free}.`;
    return { badge: `${badge} ${state}`, text: [text], isWarning: true };
  }
  const text = `${who} is ${state}. Showing data stored in this page.${isGone ? ` ${again}` : ""}`;
  return { badge: `${badge} ${state} · page data`, text: [text], isWarning: !isGone };
}

/** Return the progress of fetching data for use without a kernel; "" if nothing to report. */
export function progressText({ state, receivedBytes, totalBytes }: Progress): string {
  if (state === "preparing") return "preparing the offline copy …";
  if (state === "fetching")
    return `fetching page data, ${formatBytes(receivedBytes)} of ${formatBytes(totalBytes)}`;
  if (state === "failed") return "no offline copy: works with the kernel only";
  return "";
}
