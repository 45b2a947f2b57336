/** What the stage shows as one SVG: drawn by the same code as on the screen. */

import type { Kind, SvgCaption } from "../../contract";
import { niceStep } from "../axis";
import type { ClassLook } from "../class_paints";
import { formatDuration, formatShare } from "../format";
import { mixed } from "../head";
import { type Frame, paintFrame } from "../painter";
import { Pen } from "../pen";
import { FONT, FONT_FAMILY } from "../theme";
import { svgContext } from "./context";
import { SvgRaster } from "./raster";
import { Sheet } from "./sheet";

const KEY_PX = 10;
const SCALE_PX = 48;
const BELOW_PX = 34;
const FAINT = 0.45;
const OF_DEVICE: ReadonlySet<Kind> = new Set(["compute", "communication", "memory"]);

export function svgOf(frame: Frame, caption: SvgCaption): string {
  const ruler = document.createElement("canvas").getContext("2d");
  if (ruler === null) throw new Error("This browser gives no 2D canvas.");
  const { geometry, theme, view, scene } = frame.lanes;
  const { width, dpr, lanesX, lanesWidth, rowsTop, rowsHeight } = geometry;
  const sheet = new Sheet();
  const above = caption.headline === "" ? 46 : 64;
  const height = above + geometry.height + BELOW_PX;
  sheet.add(`<g font-family="${FONT_FAMILY.replace(/"/g, "'")}" font-size="11">`);
  const pen = new Pen(svgContext(sheet, ruler), dpr);
  pen.rect(0, 0, width, height, theme.bg);
  drawTitle(pen, frame, caption);
  drawLegend(pen, frame, above - 10);
  sheet.add(`<g transform="translate(0 ${above})">`);
  const px = (value: number): number => Math.round(value * dpr);
  const [left, top] = [px(lanesX), px(rowsTop)];
  const raster = new SvgRaster(
    sheet,
    px(lanesX + lanesWidth) - left,
    px(rowsTop + rowsHeight) - top,
    dpr,
    [left / dpr, top / dpr],
  );
  paintFrame(frame, pen, pen, raster);
  sheet.add("</g>");
  const y = above + geometry.height + 15;
  pen.horizontal(above + geometry.height, 0, width, theme.rule);
  const perPx = (view[1] - view[0]) / lanesWidth;
  const length = niceStep(Math.max(SCALE_PX * perPx, 1));
  const wide = length / perPx;
  pen.rect(lanesX, y, wide, 2, theme.ink);
  for (const x of [lanesX, lanesX + wide - 1]) pen.rect(x, y - 3, 1, 8, theme.ink);
  pen.text(formatDuration(length), lanesX + wide + 6, y + 5, FONT.label, theme.ink);
  const right = lanesX + lanesWidth;
  const room = lanesWidth - wide - 100;
  pen.fitted(scene.truth.text, right, y + 5, room, FONT.label, theme.ink3, "right");
  sheet.add("</g>");
  return sheet.svg(width, height, `${caption.title}, ${caption.words}`);
}

function drawTitle(pen: Pen, frame: Frame, { title, words, headline }: SvgCaption): void {
  const { geometry, theme } = frame.lanes;
  const room = geometry.width - 24;
  const strong = `600 14px ${FONT_FAMILY}`;
  if (headline !== "") pen.fitted(headline, 12, 20, room, strong, theme.ink);
  const y = headline === "" ? 20 : 40;
  const left = Math.max(room - pen.width(words, FONT.label) - 16, 60);
  const used = pen.fitted(title, 12, y, left, FONT.labelStrong, theme.ink);
  pen.fitted(words, 24 + used, y, room - used - 12, FONT.label, theme.ink2);
}

/** What the colours mean, as far as there is room. */
function drawLegend(pen: Pen, frame: Frame, y: number): void {
  const { geometry, theme } = frame.lanes;
  const { stats, lateness } = frame.margin;
  const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
  const span = stats === null ? 0 : sum(stats.stats.span);
  const waited = lateness === null ? 0 : sum(lateness.lateness.wait);
  let x = geometry.lanesX;
  const key = (word: string, share: number | undefined, swatch: (x: number) => void): void => {
    const text = share === undefined ? word : `${word} ${formatShare(share)}`;
    const width = KEY_PX + 4 + pen.width(text, FONT.label);
    if (x + width > geometry.width - 12) return;
    swatch(x);
    pen.text(text, x + KEY_PX + 4, y, FONT.label, theme.ink2);
    x += width + 14;
  };
  const top = y - KEY_PX + 1;
  const { keys } = frame.lanes;
  for (const { name, looks } of keys ?? []) x = classKey(pen, frame, [x, y], name, looks);
  // By class, kinds are what the totals on the right are of.
  const kinds = kindsIn(frame).filter((kind) => keys === null || OF_DEVICE.has(kind));
  for (const kind of geometry.margin > 0 || keys === null ? kinds : []) {
    const word = { communication: "comm", cpu: "CPU" }[kind as string] ?? kind;
    key(word, stats?.stats.kinds[kind], (left) =>
      pen.rect(left, top, KEY_PX, KEY_PX, theme.kind[kind]),
    );
    if (kind !== "communication" || waited <= 0) continue;
    key("waiting", span > 0 ? waited / span : undefined, (left) =>
      pen.hatched(left, top, KEY_PX, KEY_PX, theme.waitFill, theme.waitLine),
    );
    key("late", undefined, (left) => {
      const named = lateness !== null && lateness.late.size > 0;
      pen.rect(left, top, KEY_PX, KEY_PX, named ? theme.lateFill : theme.bg);
      pen.frame(left, top, KEY_PX, KEY_PX, named ? theme.late : theme.ink3, 1);
    });
  }
}

/** The swatches of a class, and its name; returns where the next one may stand. */
function classKey(
  pen: Pen,
  { lanes: { geometry, theme } }: Frame,
  [left, y]: readonly [number, number],
  name: string,
  looks: readonly ClassLook[],
): number {
  const words = left + looks.length * (KEY_PX + 2) + 2;
  const end = words + pen.width(name, FONT.label);
  if (end > geometry.width - 12) return left;
  const top = y - KEY_PX + 1;
  looks.forEach(({ colour, hatched, faint }, at) => {
    const x = left + at * (KEY_PX + 2);
    if (hatched) pen.hatched(x, top, KEY_PX, KEY_PX, theme.bg, colour);
    else
      pen.rect(x, top, KEY_PX, KEY_PX, faint === true ? mixed(colour, theme.lane, FAINT) : colour);
  });
  pen.text(name, words, y, FONT.label, theme.ink2);
  return end + 14;
}

/** Kinds that the rows in sight may hold, those of the device first. */
function kindsIn({ lanes: { scene, sight } }: Frame): Kind[] {
  const rows = sight.placed.map(({ row }) => row);
  const summaries = new Set(rows.flatMap(({ rank }) => rank.summary.map(({ role }) => role)));
  const roles = new Set(rows.flatMap(({ rank }) => rank.tracks.map(({ role }) => role)));
  const host = roles.has("thread");
  const there: Record<Kind, boolean> = {
    compute: summaries.has("gpu"),
    communication: summaries.has("comm"),
    memory: summaries.has("gpu"),
    cpu: host,
    sync: host && summaries.has("gpu") && rows.some(({ track }) => track !== null),
    annotation: roles.has("annotation") || scene.steps.length > 0,
    other: roles.has("other") || roles.has("async") || roles.has("instant"),
  };
  return (Object.keys(there) as Kind[]).filter((kind) => there[kind]);
}
