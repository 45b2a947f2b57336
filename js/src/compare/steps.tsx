/** The strip of step pairs, with the changes between them. */

import { computed } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { sum } from "../expressions/numbers";
import { getOrMake } from "../protocol/maps";
import type { PanelFrame, ThemeName } from "../protocol/source";
import { formatDuration } from "../ui/formats";
import { THEMES } from "../ui/theme";
import type { DiffContext } from "./context";
import {
  type BySide,
  deltaColor,
  deltaText,
  neutralColor,
  namesBesideSides,
  numberAt,
  type FrameRow,
  rowsOf,
  shareText,
  type Side,
  SIDES,
  textAt,
} from "./frames";
import { DiffPanel } from "./pane";

const BAND_HEIGHT = 74;
/** Space above and below the band that shows the changes, in px. */
const BAND_MARGIN = 4;
const LABELS_HEIGHT = 18;
const NARROW_BELOW_PX = 760;

/** Distance from the top of the upper run's lanes to the top of the lower run's lanes. */
const runPitch = (runHeight: number): number => runHeight + BAND_HEIGHT + 2 * BAND_MARGIN;

export class Strip extends DiffPanel<StripData> {
  /** Without a kernel, the steps that have figures, and a note about them. Null for all. */
  private readonly heldSteps = computed(() => {
    const { held_steps: steps, held_words: why = "", held_pairs: pairs } = this.ctx.about;
    if (this.ctx.pair.value !== null && pairs !== undefined) {
      return { steps: [], why: "Selecting steps of a single pair of ranks needs a kernel." };
    }
    return steps === undefined ? null : { steps, why };
  });

  constructor(
    ctx: DiffContext,
    private readonly choose: (slot: number | null) => void,
  ) {
    super(ctx, "The steps", { class: "hta-diff-strip", "aria-label": "Steps side by side" });
  }

  private get chosenSlot(): number | null {
    return this.ctx.choice.value.step;
  }

  protected draw(data: StripData) {
    const width = this.width.value;
    if (width === 0) return null;
    const narrow = width < NARROW_BELOW_PX;
    const gutter = narrow ? 92 : 152;
    const stripWidth = Math.max(width - gutter - 24, 80);
    const hasManySlots = data.slots.rows > MAX_SLOTS;
    const all = Array.from({ length: data.slots.rows }, (_, slot) => slot);
    const allSlots = placeSlots(data.slots, all, stripWidth);
    const drawnSlot = this.chosenSlot ?? medianSlot(data.slots);
    const slots = hasManySlots ? placeSlots(data.slots, [drawnSlot], stripWidth) : allSlots;
    const lanes = stripLanes(data.lanes, this.ctx.about.kind_words);
    const runHeight = heightOf(lanes);
    const size = [stripWidth, LABELS_HEIGHT + runPitch(runHeight) + runHeight] as const;
    const theme = this.ctx.theme.value;
    return (
      <>
        <Legend lanes={lanes} slots={allSlots} isChange={data.isChange} theme={theme} />
        {this.heldNote(hasManySlots)}
        {hasManySlots && (
          <div class="hta-diff-cells" style={{ paddingLeft: `${gutter}px` }}>
            {allSlots.map((slot) => this.cell(slot, drawnSlot))}
          </div>
        )}
        <div class="hta-diff-grid" style={{ gridTemplateColumns: `${gutter}px ${stripWidth}px` }}>
          <Gutter
            data={data}
            runHeight={runHeight}
            only={slots.length === 1 ? slots[0]! : null}
            ranksText={narrow ? "" : data.ranksText}
          />
          <div class="hta-diff-picture" style={{ height: `${size[1]}px` }}>
            <StripCanvas data={data} slots={slots} lanes={lanes} theme={theme} size={size} />
            <svg width={size[0]} height={size[1]} class="hta-diff-over">
              {slots.map((slot) => this.slot(slot, runHeight, narrow))}
            </svg>
          </div>
        </div>
      </>
    );
  }

  private heldNote(hasCells: boolean) {
    const { value: held } = this.heldSteps;
    if (held === null) return null;
    return (
      <p class="hta-diff-held">
        {held.why}
        {hasCells && held.steps.length > 0 && " Tall cells mark these steps."}
      </p>
    );
  }

  /** Return the button that selects a step, used if there are too many steps to draw. */
  private cell(stepSlot: StepSlot, drawn: number) {
    const { slot, label, diff, lengths } = stepSlot;
    const text = `${deltaText(diff)} ${shareText(diff, lengths[0])}`;
    return (
      <button
        key={slot}
        type="button"
        class={slot === drawn ? "hta-diff-cell hta-on" : "hta-diff-cell"}
        title={`${label}: ${text}${this.noPairText(slot)}`}
        aria-label={`${label}, ${deltaText(diff)}${this.noPairText(slot)}`}
        aria-pressed={slot === this.chosenSlot}
        aria-disabled={this.has(slot) ? undefined : true}
        style={{ background: this.colorOf(stepSlot) }}
        onClick={() => this.toggle(slot)}
      />
    );
  }

  /** Return the color of a step's change, neutral if the steps differ only by noise. */
  private colorOf({ share }: StepSlot): string {
    const theme = this.ctx.theme.value;
    return this.shown.value?.isChange === true ? deltaColor(share, theme) : neutralColor(theme);
  }

  private has(slot: number): boolean {
    return this.heldSteps.value?.steps.includes(slot) ?? true;
  }

  private noPairText(slot: number): string {
    return this.has(slot) ? "" : "; its own figures are not in this page";
  }

  private toggle(slot: number): void {
    if (this.has(slot)) this.choose(this.chosenSlot === slot ? null : slot);
  }

  /** Return the label of a slot's button, which must begin with the drawn texts. */
  private slotLabel(slot: StepSlot, narrow: boolean): string {
    const { label, diff, lengths } = slot;
    const numbers = [...changeLines(slot, narrow), deltaText(diff), shareText(diff, lengths[0])];
    return `${label}: ${[...new Set(numbers)].join(" ").trim()}${this.noPairText(slot.slot)}`;
  }

  /** Return a slot's label, dashed line and band as one button. */
  private slot(slot: StepSlot, runHeight: number, narrow: boolean) {
    const { x, width, lengthsPx, label } = slot;
    const theme = THEMES[this.ctx.theme.value];
    const top = LABELS_HEIGHT + runHeight + BAND_MARGIN;
    const slotHeight = LABELS_HEIGHT + runPitch(runHeight) + runHeight;
    const isOn = this.chosenSlot === slot.slot;
    const points = bandPoints(slot, BAND_HEIGHT).map(([px, py]) => `${px},${top + py}`);
    return (
      <g
        key={slot.slot}
        class={isOn ? "hta-diff-slot hta-on" : "hta-diff-slot"}
        transform={`translate(${x},0)`}
        // SVG requires this attribute in lower case.
        tabindex={0}
        role="button"
        aria-pressed={isOn}
        aria-disabled={this.has(slot.slot) ? undefined : true}
        aria-label={this.slotLabel(slot, narrow)}
        onClick={() => this.toggle(slot.slot)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          event.stopPropagation();
          this.toggle(slot.slot);
        }}
      >
        <rect x={0} y={0} width={width} height={slotHeight} fill="transparent" />
        <text x={0} y={12} class="hta-diff-label">
          {fittingLabel(label, width)}
        </text>
        <rect x={0} y={top} width={width} height={BAND_HEIGHT} fill={theme.lane} />
        {Math.abs(lengthsPx[0] - lengthsPx[1]) >= 0.5 && (
          <polygon points={points.join(" ")} fill={this.colorOf(slot)} />
        )}
        <g stroke={theme.ruleStrong}>{SIDES.map((side) => restLines(slot, side, runHeight))}</g>
        <ChangeMark slot={slot} narrow={narrow} top={top} theme={theme.name} />
        {isOn && (
          <rect
            x={0.5}
            y={LABELS_HEIGHT - 0.5}
            width={Math.max(width - 1, 1)}
            height={slotHeight - LABELS_HEIGHT}
            fill="none"
            stroke={theme.focus}
            stroke-width={2}
          />
        )}
      </g>
    );
  }
}

/** Return the end of the shorter step, and a dashed line from there to the end of the slot. */
function restLines({ lengthsPx, width }: StepSlot, side: Side, runHeight: number) {
  const left = lengthsPx[side];
  if (width - left < 3) return null;
  const y = LABELS_HEIGHT + side * runPitch(runHeight) + runHeight / 2;
  return (
    <>
      <line x1={left + 1} x2={width} y1={y} y2={y} stroke-dasharray="2 3" />
      <line x1={left} x2={left} y1={y - runHeight / 2} y2={y + runHeight / 2 - GAP} />
    </>
  );
}

/** Return the longest form of a label that fits: the full label, its number, or "". */
function fittingLabel(label: string, width: number): string {
  const maxCharacters = width < 26 ? 0 : Math.floor((width - 2) / 6.4);
  const short = label.startsWith("Step ") ? label.slice(5) : label;
  return [label, short].find((text) => text.length <= maxCharacters) ?? "";
}

function Legend(props: {
  lanes: readonly StripLane[];
  slots: readonly StepSlot[];
  isChange: boolean;
  theme: ThemeName;
}) {
  const { lanes, slots, isChange, theme } = props;
  const kinds = THEMES[theme].kind;
  const keys: [name: string, color: string][] = lanes.map(({ name, kind }) => [name, kinds[kind]]);
  if (!isChange) keys.push(["change that may be chance", neutralColor(theme)]);
  else {
    if (slots.some(({ diff }) => diff < 0)) keys.push(["faster", deltaColor(-0.5, theme)]);
    if (slots.some(({ diff }) => diff > 0)) keys.push(["slower", deltaColor(0.5, theme)]);
  }
  return (
    <p class="hta-diff-legend">
      {keys.map(([name, color]) => (
        <span key={name}>
          <i class="hta-diff-swatch" style={{ background: color }} />
          {name}
        </span>
      ))}
      <span class="hta-note">dashed: no counterpart, not idle</span>
    </p>
  );
}

function Gutter(props: {
  data: StripData;
  runHeight: number;
  only: StepSlot | null;
  ranksText: string;
}) {
  const { data, runHeight, only, ranksText } = props;
  const names = namesBesideSides(data.labels);
  const [before, after] = data.totals;
  const runName = (side: Side) => (
    <div class="hta-diff-run" style={{ height: `${runHeight}px` }}>
      <div class="hta-diff-run-name">
        <b>{side === 0 ? "before" : "after"}</b>
        <span title={data.labels[side]}>{names[side]}</span>
        <small>{formatDuration((only?.lengths ?? data.totals)[side])}</small>
      </div>
    </div>
  );
  return (
    <div class="hta-diff-gutter">
      <small
        style={{ height: `${LABELS_HEIGHT}px` }}
        title={`${data.ranksText}, starts of steps aligned`}
      >
        {ranksText}
      </small>
      {runName(0)}
      <div
        class="hta-diff-run hta-diff-between"
        style={{ height: `${BAND_HEIGHT + 2 * BAND_MARGIN}px` }}
      >
        <div class="hta-diff-run-name">
          <b>change</b>
          <small>{only === null ? `mean ${shareText(after - before, before)}` : ""}</small>
        </div>
      </div>
      {runName(1)}
    </div>
  );
}

/** Return the numbers of a change that fit in the width of its slot. */
function changeLines({ diff, lengths, width }: StepSlot, narrow: boolean): string[] {
  const lines = narrow || deltaText(diff).length * 7.6 + 14 > width ? [] : [deltaText(diff)];
  return width >= 34 ? [...lines, shareText(diff, lengths[0]) || "new"] : lines;
}

/** Draw the numbers in the gray part if they fit, otherwise on a plate. */
function ChangeMark(props: { slot: StepSlot; narrow: boolean; top: number; theme: ThemeName }) {
  const { slot, narrow, top, theme } = props;
  const { width, lengthsPx } = slot;
  const lines = changeLines(slot, narrow);
  if (lines.length === 0) return null;
  const lineWidths = lines.map((line, index) => line.length * (index === 0 ? 7.4 : 6.6));
  const textWidth = Math.max(...lineWidths);
  // The numbers may extend over the gray part and the first third of the wedge after it.
  const grayWidth = Math.min(...lengthsPx) + Math.abs(lengthsPx[0] - lengthsPx[1]) / 3;
  const y = top + BAND_HEIGHT / 2 - (lines.length - 1) * 9 + 4;
  return (
    <>
      {grayWidth < textWidth + 10 && (
        <rect
          x={4}
          y={y - 14}
          width={Math.min(textWidth + 8, width - 6)}
          height={18 * lines.length + 2}
          fill={THEMES[theme].bg}
          opacity={0.88}
          rx={2}
        />
      )}
      {lines.map((line, index) => (
        <text
          key={line}
          x={8}
          y={y + index * 17}
          class={index === 0 && lines.length === 2 ? "hta-diff-delta" : "hta-diff-share"}
        >
          {line}
        </text>
      ))}
    </>
  );
}

interface StripPicture {
  data: StripData;
  slots: readonly StepSlot[];
  lanes: readonly StripLane[];
  theme: ThemeName;
}

function StripCanvas({
  size: [width, height],
  ...picture
}: StripPicture & { size: readonly [width: number, height: number] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const dpr = window.devicePixelRatio || 1;
    const el = canvas.current!;
    el.width = Math.round(width * dpr);
    el.height = Math.round(height * dpr);
    paintStrip(el, picture, dpr);
  });
  return (
    <canvas
      ref={canvas}
      class="hta-diff-canvas"
      aria-hidden="true"
      style={{ width: `${width}px`, height: `${height}px` }}
    />
  );
}

function paintStrip(canvas: HTMLCanvasElement, picture: StripPicture, dpr: number): void {
  const pen = canvas.getContext("2d");
  if (pen === null) return;
  const { data, slots, lanes } = picture;
  const theme = THEMES[picture.theme];
  const runHeight = heightOf(lanes);
  const shares = busyShares(data.lanes, slots, dpr);
  pen.scale(dpr, dpr);
  for (const { slot, x, lengthsPx } of slots) {
    for (const side of SIDES) {
      const top = LABELS_HEIGHT + side * runPitch(runHeight);
      let bottom = top - GAP;
      for (const { index, kind, height } of lanes) {
        bottom += GAP + height;
        pen.fillStyle = theme.lane;
        pen.fillRect(x, bottom - height, lengthsPx[side], height);
        pen.fillStyle = theme.kind[kind];
        // Bars start on whole device pixels, because bars between pixels would look paler.
        const left = Math.round(x * dpr) / dpr;
        shares.get(`${slot}/${side}/${index}`)?.forEach((share, pixel) => {
          if (share <= 0) return;
          const barHeight = Math.max(Math.min(share, 1) * height, 1 / dpr);
          pen.fillRect(left + pixel / dpr, bottom - barHeight, 1 / dpr, barHeight);
        });
      }
      pen.fillStyle = theme.kind.annotation;
      pen.fillRect(x - 1, top, 2, runHeight - GAP);
    }
  }
}

/** Return the busy share of each device pixel's time, keyed by `slot/side/lane`. */
function busyShares(
  { rows, columns, attrs }: PanelFrame,
  slots: readonly StepSlot[],
  dpr: number,
): Map<string, Float64Array> {
  const bySlot = new Map(slots.map((slot) => [slot.slot, slot]));
  const cellNs = Number(attrs.cell_ns ?? 1);
  const column = (name: string): readonly number[] => (columns[name] ?? []) as readonly number[];
  const names = ["slot", "side", "lane", "cell", "busy_ns"];
  const [slotNumber, side, lane, cell, busy] = names.map(column);
  const shares = new Map<string, Float64Array>();
  for (let row = 0; row < rows; row += 1) {
    const slot = bySlot.get(slotNumber![row]!);
    if (slot === undefined) continue;
    const key = `${slot.slot}/${side![row]}/${lane![row]}`;
    const pixelCount = Math.max(1, Math.floor(slot.width * dpr));
    const pixels = getOrMake(shares, key, () => new Float64Array(pixelCount));
    const pxPerNs = (slot.width * dpr) / Math.max(...slot.lengths, 1);
    const from = cell![row]! * cellNs * pxPerNs;
    const to = Math.min((cell![row]! + 1) * cellNs * pxPerNs, pixelCount);
    const share = (busy![row]! * pxPerNs) / Math.max(to - from, 1e-9);
    for (let bin = Math.floor(from); bin < to; bin += 1) {
      pixels[bin]! += share * (Math.min(to, bin + 1) - Math.max(from, bin));
    }
  }
  return shares;
}

// Pure functions that lay out the slots of steps in the strip.

export interface StripData {
  labels: BySide<string>;
  slots: PanelFrame;
  lanes: PanelFrame;
  /** Mean length of the steps before and after. */
  totals: BySide<number>;
  /** Whether the steps changed significantly. */
  isChange: boolean;
  /** Text about the lanes: a pair of ranks, or a mean over pairs. */
  ranksText: string;
}

interface StepSlot {
  slot: number;
  label: string;
  /** Lengths of the step before and after, in ns. */
  lengths: [number, number];
  x: number;
  width: number;
  /** Lengths of the step in px. */
  lengthsPx: [number, number];
  diff: number;
  share: number;
}

/** The time kinds, ordered by their index in the frame, with the heights of their lanes. */
const LANES = [
  { name: "compute", kind: "compute", height: 28 },
  { name: "communication", kind: "communication", height: 14 },
  { name: "copies", kind: "memory", height: 12 },
] as const;

/** Space between two lanes, in px. */
const GAP = 2;

interface StripLane {
  name: string;
  kind: (typeof LANES)[number]["kind"];
  height: number;
  /** Index of the lane in the frame. */
  index: number;
}

/** Return the kinds that occur; all if none does. `kindNames` holds names given by formats. */
export function stripLanes(frame: PanelFrame, kindNames: Record<string, string>): StripLane[] {
  const present = new Set(frame.columns.lane);
  const all = LANES.map((lane, index) => {
    const name = kindNames[lane.kind] ?? lane.name;
    return { ...lane, name, index };
  });
  const shown = all.filter(({ index }) => present.has(index));
  if (shown.length === 0 || shown.length === all.length) return all;
  // The labels need the height of all kinds, so the visible kinds share that height.
  const gaps = shown.length * GAP;
  const scale = (heightOf(all) - gaps) / (heightOf(shown) - gaps);
  return shown.map((lane) => ({ ...lane, height: Math.round(lane.height * scale) }));
}

function heightOf(lanes: readonly StripLane[]): number {
  return sum(lanes.map(({ height }) => height + GAP));
}

/** Maximum number of slots drawn side by side. */
const MAX_SLOTS = 12;
const GAP_PX = 5;

/** Return `Step #1009` for `ProfilerStep#1009`. */
export function stepLabel(label: string): string {
  return label.replace(/^ProfilerStep#(\d+)$/, "Step #$1");
}

/** Return the times of a pair of steps: means over ranks if known, otherwise end minus start. */
export function lengthsOf(row: FrameRow): [number, number] {
  const lengthOf = (side: "before" | "after"): number => {
    const mean = row[`${side}_ns`];
    if (typeof mean === "number") return mean;
    return numberAt(row, `${side}_end_ns`) - numberAt(row, `${side}_start_ns`);
  };
  return [lengthOf("before"), lengthOf("after")];
}

/** Use the lengths in the step table for slots, as ranks start and end at different times. */
export function withLengths(slots: PanelFrame, steps: PanelFrame): PanelFrame {
  const { before_ns, after_ns, diff_ns } = steps.columns;
  if (steps.rows !== slots.rows || !before_ns || !after_ns || !diff_ns) return slots;
  return { ...slots, columns: { ...slots.columns, before_ns, after_ns, delta_ns: diff_ns } };
}

/** Place the selected steps side by side in `width` px. Each slot fits the longer of its steps. */
export function placeSlots(
  frame: PanelFrame,
  selected: readonly number[],
  width: number,
): StepSlot[] {
  const all = rowsOf(frame);
  const rows = selected.map((slot) => all[slot]).filter((row) => row !== undefined);
  const longest = rows.map((row) => Math.max(...lengthsOf(row), 1));
  const availableWidth = Math.max(width - GAP_PX * Math.max(rows.length - 1, 0), 1);
  const scale = availableWidth / sum(longest);
  let nextX = 0;
  return rows.map((row, index): StepSlot => {
    const lengths = lengthsOf(row);
    const [before, after] = lengths;
    const labels = [textAt(row, "before_label"), textAt(row, "after_label")].map(stepLabel);
    const x = nextX;
    const slotWidth = longest[index]! * scale;
    nextX += slotWidth + GAP_PX;
    return {
      slot: numberAt(row, "slot"),
      label: [...new Set(labels)].join(" → "),
      lengths,
      x,
      width: slotWidth,
      lengthsPx: [before * scale, after * scale],
      diff: after - before,
      share: before > 0 ? (after - before) / before : Infinity,
    };
  });
}

/** Return the step with the median change, which is drawn if there are too many to draw all. */
export function medianSlot(frame: PanelFrame): number {
  const rows = rowsOf(frame).sort((a, b) => numberAt(a, "delta_ns") - numberAt(b, "delta_ns"));
  return numberAt(rows[rows.length >> 1] ?? {}, "slot");
}

/** Return the corners of a band of the given height between the ends before and after. */
export function bandPoints(
  { lengthsPx: [before, after] }: StepSlot,
  height: number,
): [number, number][] {
  const longer = Math.max(before, after);
  return [[before, 0], [longer, 0], [longer, height], [after, height]]; // prettier-ignore
}
