/** The status line and the state of the connection. */

import { computed, signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { HybridSource, Progress } from "../connection/answering";
import { same } from "../connection/store";
import type { ClockFacts, Source } from "../protocol/source";
import { Icon, Sentence } from "../ui/controls";
import { react } from "../ui/react";
import { formatBytes, formatCount, formatDuration, plural } from "../ui/formats";
import type { Words } from "../ui/text";
import { throttle } from "./context";
import { plain } from "./text";
import type { AppOptions, TimelineApp } from "./view";

/** Sources of messages, the most urgent first. */
const LAYERS = ["flash", "brush", "kernel", "area", "search", "event", "view"] as const;
type Layer = (typeof LAYERS)[number];

const SPOKEN_MS = 1000;

const ZOOM: Words = [{ key: "W" }, " ", { key: "S" }, " zoom · "];
const PAN: Words = [{ key: "A" }, " ", { key: "D" }, " pan · "];
const SEARCH: Words = [{ key: "/" }, " search · "];
const KEYS: Words = [{ key: "?" }, " keys"];
const LEAVE: Words = [" · ", { key: "Esc" }, " ", { key: "Esc" }, " leave"];

/** Hints of keys, from long to short. */
const HINTS: readonly Words[] = [
  [...ZOOM, ...PAN, ...SEARCH, ...KEYS, ...LEAVE],
  [...ZOOM, ...KEYS, ...LEAVE],
  [...KEYS, ...LEAVE],
  KEYS,
];

export interface KernelSays {
  badge: string;
  words: Words;
  isWarning: boolean;
}

const KERNEL: Record<Exclude<Source["status"], "live">, KernelSays> = {
  busy: {
    badge: "Kernel busy",
    words: ["Zoom and pan work; detail follows when the cell ends."],
    isWarning: true,
  },
  none: {
    badge: "Saved view",
    words: ["No kernel: the page answers from what it holds."],
    isWarning: false,
  },
};

/** Text on the clock of the drawn times. */
export function clockWords(
  { is_fitted, apart_ns, residual_ns }: ClockFacts,
  canSwitch: boolean,
): { badge: string; title: string } {
  const [apart, residual] = [formatDuration(apart_ns), formatDuration(residual_ns)];
  const facts =
    `recorded clocks of ranks differ by up to ${apart}; ` +
    `on the fitted clock their collectives end within ${residual}`;
  const name = is_fitted ? "fitted" : "recorded";
  const other = is_fitted ? "recorded" : "fitted";
  const more = canSwitch
    ? `Press to draw the ${other} clock.`
    : `This page has the ${name} clock alone.`;
  return {
    badge: is_fitted ? `clock: fitted ±${residual}` : `clock: recorded, ${apart} apart`,
    title: `Drawn on the ${name} clock: ${facts}. ${more}`,
  };
}

export type Clock = "recorded" | "fitted";

export class StatusLine {
  /** Text for work in the background. */
  readonly aside = signal("");
  /** Number of ranks shown, and of all; they differ if a linked panel selects ranks. */
  readonly ranks = signal<readonly [shown: number, all: number]>([0, 0]);
  /** Null while it is not known whether recorded clocks disagree. */
  readonly clocks = signal<ClockFacts | null>(null);
  /** Show hints of keys while focused, until a key is pressed. */
  readonly hinting = signal(false);
  /** Text on a source that does not answer from a live kernel. */
  readonly kernel = signal<KernelSays | null>(null);
  /** Text for screen readers. */
  readonly spoken = signal("");
  private readonly said = signal<Partial<Record<Layer, Words>>>({});
  private readonly layer = computed(() => LAYERS.find((one) => one in this.said.value));
  /** The most urgent message. */
  readonly words = computed(() => this.said.value[this.layer.value ?? "view"] ?? []);
  readonly hasHint = computed(
    () => this.hinting.value && this.layer.value !== "flash" && this.layer.value !== "brush",
  );
  private flashTimer = 0;

  constructor(
    readonly app: Pick<TimelineApp, "ctx" | "panels">,
    readonly options: Pick<AppOptions, "setClock" | "part">,
  ) {
    const { signal: ended, source, root } = app.ctx;
    const speak = throttle(SPOKEN_MS, ended, () => (this.spoken.value = plain(this.words.value)));
    react(() => this.words.value, speak, ended);
    react(this.hinting, (on) => root.classList.toggle("hta-hinting", on), ended);
    ended.addEventListener("abort", () => clearTimeout(this.flashTimer), { once: true });
    react(
      () =>
        source.status === "live" ? null : (options.part?.kernelSays() ?? KERNEL[source.status]),
      (says) => {
        this.kernel.value = says;
        // The badge of a saved view shows that it is saved, so the line is free for other texts.
        this.say("kernel", source.status === "busy" ? (says?.words ?? null) : null);
      },
      ended,
    );
  }

  /** Set the message of a layer; null clears it. */
  say(layer: Layer, words: Words | null): void {
    const { [layer]: before = null, ...others } = this.said.value;
    if (!same(before, words)) this.said.value = { ...others, ...(words && { [layer]: words }) };
  }

  /** Show a message briefly. */
  flash(words: Words, ms = 2000): void {
    clearTimeout(this.flashTimer);
    this.say("flash", words);
    this.flashTimer = window.setTimeout(() => this.say("flash", null), ms);
  }
}

export function Status({ line }: { line: StatusLine }) {
  return (
    <div class="hta-status">
      <KernelBadge line={line} />
      <Message line={line} />
      <div class="hta-hidden" role="status" aria-live="polite">
        {line.spoken}
      </div>
      {line.aside.value !== "" && <span class="hta-note">{line.aside}</span>}
      <RanksShown line={line} />
      <ClockBadge line={line} />
      <TruthBadge line={line} />
    </div>
  );
}

function Message({ line }: { line: StatusLine }) {
  const words = line.words.value;
  const text = plain(words);
  return (
    <div class="hta-words" title={text}>
      <span class="hta-said">
        <Sentence words={words} />
      </span>
      {line.hasHint.value && <Hint key={text} />}
    </div>
  );
}

/** The longest hint that does not truncate the message before it; the shortest one always. */
function Hint() {
  const place = useRef<HTMLSpanElement>(null);
  const at = useSignal(0);
  useLayoutEffect(() => {
    const { scrollWidth, clientWidth } = place.current!.previousElementSibling!;
    if (scrollWidth > clientWidth && at.value < HINTS.length - 1) at.value += 1;
  });
  return (
    <span ref={place} class="hta-hint">
      <Sentence words={HINTS[at.value]!} />
    </span>
  );
}

/** The state of the connection, explained over any other message when it is pressed. */
function KernelBadge({ line }: { line: StatusLine }) {
  const says = line.kernel.value;
  if (says === null) return null;
  const { ctx } = line.app;
  const { embedded } = ctx.scene;
  const title = embedded === undefined ? plain(says.words) : `${says.badge}. ${embedded.text}`;
  return (
    <button
      type="button"
      class={`hta-badge hta-kernel ${says.isWarning ? "hta-warn" : ""}`}
      title={title}
      onClick={() => line.flash(embedded === undefined ? says.words : [embedded.text], 5000)}
    >
      {embedded?.level === "partial" ? (
        <span>{title}</span>
      ) : (
        `${ctx.source.status === "busy" ? "● " : ""}${says.badge}`
      )}
    </button>
  );
}

function RanksShown({ line: { ranks, app } }: { line: StatusLine }) {
  const [shown, all] = ranks.value;
  if (shown === all) return null;
  return (
    <button
      type="button"
      class="hta-ranks-shown"
      title="Show the rows of all ranks; what is selected stays selected"
      onClick={() => app.ctx.shared.set({ ranks_from: "timeline" })}
    >
      {`${formatCount(shown)} of ${plural(all, "rank")} shown · `}
      <b>Show all</b>
    </button>
  );
}

/** Names the clock of the drawn times and switches it. */
function ClockBadge({ line }: { line: StatusLine }) {
  const clocks = line.clocks.value;
  if (clocks === null || !(clocks.is_off || clocks.is_fitted)) return null;
  const { setClock } = line.options;
  const { badge, title } = clockWords(clocks, setClock !== undefined);
  const change = (): void => {
    if (setClock === undefined || line.app.ctx.source.status === "none") {
      line.flash([clockWords(clocks, false).title], 5000);
      return;
    }
    const other = clocks.is_fitted ? "recorded" : "fitted";
    setClock(other);
    line.flash([`Laying out the ${other} clock …`]);
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
  // The drawing may lack events, so the badge could be wrong.
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

// Origin of replies as text: the kernel, or the data stored in the page.

export function kernelSays({ status, holds, words }: HybridSource): KernelSays | null {
  if (status === "live") return null;
  const { who, badge, free, again } = words;
  const isGone = status === "none";
  const state = isGone ? "gone" : "busy";
  if (isGone ? holds === "nothing" : holds !== "all") {
    const text = isGone
      ? `${who} is gone, and the page holds no data yet. ${again}`
      : `Zoom and pan work; detail follows when ${free}.`;
    return { badge: `${badge} ${state}`, words: [text], isWarning: true };
  }
  const text = `${who} is ${state}. The page answers from what it holds.${isGone ? ` ${again}` : ""}`;
  return { badge: `${badge} ${state} · page data`, words: [text], isWarning: !isGone };
}

/** Progress of fetching the page's offline data; "" if there is nothing to report. */
export function progressWords({ state, bytes, of }: Progress): string {
  if (state === "preparing") return "preparing page data …";
  if (state === "fetching")
    return `fetching page data, ${formatBytes(bytes)} of ${formatBytes(of)}`;
  if (state === "failed") return "no page data: works with the kernel only";
  return "";
}
