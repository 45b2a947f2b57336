/** Lines between the timelines that connect matched events. */

import { signal } from "@preact/signals";
import { classStyle, classOfChange } from "../facts/event_classes";
import type { Brief, Ties } from "../protocol/source";
import type { Stage } from "../stage/stage";
import { h, renderInto } from "../ui/dom";
import { formatDuration } from "../ui/formats";
import { onSignal } from "../ui/react";
import { THEMES } from "../ui/theme";
import type { DiffContext } from "./context";
import { type BySide, deltaText, shareText, type Side } from "./frames";

export interface PairedEvents {
  /** In the order of display; null without a partner. */
  events: BySide<Brief | null>;
  status: string | null;
}

type Extent = Pick<Brief, "start" | "dur">;

const HEIGHT = 40;
/** Share of the longer duration up to which a line is drawn as that of an unchanged pair. */
const SAME_SHARE = 0.05;

/** Describe a pair: name, both durations, difference and status. */
export function pairText({ events, status }: PairedEvents): {
  name: string;
  words: string;
  delta: string;
} {
  const [first, second] = events;
  const name = (second ?? first)?.short ?? "";
  if (first === null || second === null) {
    const present = first ?? second;
    const side = first === null ? "after only" : "before only";
    if (status === null) return { name, words: "not compared: outside of the steps", delta: "" };
    return {
      name,
      words: `${formatDuration(present?.dur ?? null)}, ${side}: ${status}`,
      delta: "",
    };
  }
  const diff = second.dur - first.dur;
  const statusText = status === "same" || status === "changed" ? "" : ` · ${status}`;
  return {
    name: first.short === second.short ? name : `${first.short} → ${second.short}`,
    words: `${formatDuration(first.dur)} → ${formatDuration(second.dur)}`,
    delta: `${deltaText(diff)} ${shareText(diff, first.dur)}${statusText}`,
  };
}

export class PairLines {
  readonly el = h("div", { class: "hta-diff-lines" });
  readonly hovered = signal<PairedEvents | null>(null);
  readonly selected = signal<PairedEvents | null>(null);
  /** Pairs of device work, in the order of display. */
  readonly pairedEvents = signal<Ties["ties"]>([]);
  /** The starts of slots on both timelines. */
  readonly starts = signal<readonly BySide<number>[]>([]);
  width = 0;
  /** Whether there is no gap between the timelines, so that pairs are only described. */
  readonly hasFlatEnds = signal(false);
  private readonly isToggledOn = signal(false);
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private frame = 0;

  /** `stageAt` gives the upper (0) or lower (1) timeline. */
  constructor(
    private readonly ctx: DiffContext,
    private readonly stageAt: (place: Side) => Stage,
    onToggle: () => void,
  ) {
    const { signal: abortSignal } = ctx.options;
    const head = h("div", { class: "hta-diff-said" });
    this.el.append(head, this.canvas);
    const toggle = (): void => {
      this.isToggledOn.value = !this.isToggledOn.value;
      onToggle();
    };
    renderInto(<LinesHead lines={this} on={this.isToggledOn} toggle={toggle} />, head, abortSignal);
    const { theme } = ctx;
    const { hovered, selected, pairedEvents, starts, hasFlatEnds, canvas } = this;
    const drawnValues = [theme, hovered, selected, pairedEvents, starts];
    onSignal(
      () => drawnValues.map(({ value }) => value),
      () => this.redraw(),
      abortSignal,
    );
    onSignal(hasFlatEnds, (hidden) => (canvas.hidden = hidden), abortSignal);
  }

  get wantsPairs(): boolean {
    return this.isToggledOn.value && !this.hasFlatEnds.value;
  }

  redraw(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    const { canvas, width } = this;
    if (width === 0 || this.hasFlatEnds.value) return;
    const dpr = window.devicePixelRatio || 1;
    const [pixelWidth, pixelHeight] = [Math.round(width * dpr), Math.round(HEIGHT * dpr)];
    if (canvas.width !== pixelWidth || canvas.height !== pixelHeight) {
      canvas.width = pixelWidth;
      canvas.height = pixelHeight;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${HEIGHT}px`;
    }
    const pen = canvas.getContext("2d");
    if (pen === null) return;
    const stages = [this.stageAt(0), this.stageAt(1)] as const;
    pen.setTransform(dpr, 0, 0, dpr, 0, 0);
    pen.clearRect(0, 0, width, HEIGHT);
    const [left, right] = stages[0].view().map((time) => stages[0].xOf(time)) as [number, number];
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, HEIGHT);
    pen.clip();
    const { kind, ruleStrong } = THEMES[this.ctx.theme.value];
    const starts = this.starts.value;
    pen.strokeStyle = starts.length > 100 ? ruleStrong : kind.annotation;
    pen.lineWidth = 1;
    pen.setLineDash([2, 3]);
    for (const [firstStart, secondStart] of starts) {
      pen.beginPath();
      pen.moveTo(Math.round(stages[0].xOf(firstStart)) + 0.5, 0);
      pen.lineTo(Math.round(stages[1].xOf(secondStart)) + 0.5, HEIGHT);
      pen.stroke();
    }
    pen.setLineDash([]);
    for (const [start, dur, start2, dur2] of this.isToggledOn.value
      ? this.pairedEvents.value
      : []) {
      const below = { start: start2, dur: dur2 };
      this.band(pen, stages, [{ start, dur }, below], "changed", false);
    }
    for (const pair of [this.selected.value, this.hovered.value]) {
      const [first, second] = pair?.events ?? [null, null];
      if (first === null || second === null) continue;
      this.band(pen, stages, [first, second], pair?.status ?? "", true);
    }
    pen.restore();
  }

  private band(
    pen: CanvasRenderingContext2D,
    stages: BySide<Stage>,
    [above, below]: BySide<Extent>,
    status: string,
    outlined: boolean,
  ): void {
    const theme = THEMES[this.ctx.theme.value];
    const [a0, a1] = edgesOnStage(stages[0], above);
    const [b0, b1] = edgesOnStage(stages[1], below);
    pen.beginPath();
    pen.moveTo(a0, 0);
    pen.lineTo(Math.max(a1, a0 + 1), 0);
    pen.bezierCurveTo(a1, HEIGHT / 2, b1, HEIGHT / 2, Math.max(b1, b0 + 1), HEIGHT);
    pen.lineTo(b0, HEIGHT);
    pen.bezierCurveTo(b0, HEIGHT / 2, a0, HEIGHT / 2, a0, 0);
    pen.closePath();
    pen.globalAlpha = outlined ? 0.9 : 0.55;
    const [long, short] = [Math.max(above.dur, below.dur), Math.min(above.dur, below.dur)];
    const same = status === "same" || (status === "changed" && long - short <= SAME_SHARE * long);
    const look = same ? "same" : classOfChange(status, above.dur, below.dur);
    pen.fillStyle = classStyle(look, theme.name).colour;
    pen.fill();
    pen.globalAlpha = 1;
    if (!outlined) return;
    pen.strokeStyle = theme.selection;
    pen.lineWidth = 1.25;
    pen.stroke();
  }
}

function edgesOnStage(stage: Stage, { start, dur }: Extent): [number, number] {
  return [stage.xOf(start), stage.xOf(start + dur)];
}

/** The switch of lines, and the pair under the pointer, or else the selected one. */
function LinesHead({
  lines,
  on,
  toggle,
}: {
  lines: PairLines;
  on: { value: boolean };
  toggle(): void;
}) {
  const pair = lines.hovered.value ?? lines.selected.value;
  const text = pair === null ? null : pairText(pair);
  return (
    <>
      <button
        type="button"
        class={`hta-button hta-diff-ties${on.value ? " hta-on" : ""}`}
        aria-pressed={on.value}
        title="Draw lines between device work and its partner"
        hidden={lines.hasFlatEnds.value}
        onClick={toggle}
      >
        Lines
      </button>
      <span class="hta-diff-pair" aria-live="polite">
        {text === null ? (
          <span class="hta-note">Hover over an event to see its match.</span>
        ) : (
          <>
            <b>{text.name}</b>
            {` ${text.words} `}
            <b>{text.delta}</b>
          </>
        )}
      </span>
    </>
  );
}
