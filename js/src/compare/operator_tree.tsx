/** The operator trees of both runs as one icicle chart, colored by the difference. */

import { classStyle, classCss } from "../facts/event_classes";
import { sum } from "../expressions/numbers";
import { getOrMake } from "../protocol/maps";
import type { PanelFrame, ThemeName } from "../protocol/source";
import { readableOn, rgb } from "../stage/paints";
import { Link } from "../ui/controls";
import { formatDuration } from "../ui/formats";
import { frameNote, capitalizeSentence } from "../ui/text";
import { THEMES } from "../ui/theme";
import type { DiffContext } from "./context";
import {
  countsText,
  deltaColor,
  deltaText,
  numberAt,
  type FrameRow,
  rowsOf,
  shareText,
  shortName,
  textAt,
} from "./frames";
import { DiffPanel } from "./pane";

interface IcicleTile {
  row: FrameRow;
  node: number;
  depth: number;
  x: number;
  width: number;
}

const ROW_PX = 20;
const MIN_TILE_PX = 2;
/** Minimum widths of tiles that show their name, and of tiles that also show the change. */
const [LABEL_PX, LONG_LABEL_PX] = [30, 140];
/** Width of the hatching on tiles without a partner. */
const HATCH_PX = 10;
const TEXT_COLORS = ["#ffffff", "#12171e"] as const;

/** Return the time that a tile's width represents. */
const rowSize = (row: FrameRow): number =>
  Math.max(numberAt(row, "before_ns"), numberAt(row, "after_ns"));

/** Place the visibly wide tiles below a node (-1: all). `width` is in px. */
export function placeTiles(frame: PanelFrame, top: number, width: number): IcicleTile[] {
  const rows = rowsOf(frame);
  const children = new Map<number, FrameRow[]>();
  for (const row of rows) getOrMake(children, numberAt(row, "parent"), () => []).push(row);
  const topRow = rows.find((row) => numberAt(row, "node") === top);
  const topRows = topRow === undefined ? (children.get(-1) ?? []) : [topRow];
  const tiles: IcicleTile[] = [];
  /** Place rows side by side, with widths relative to the size of their parent, or to their sum. */
  const placeRows = (
    siblings: readonly FrameRow[],
    parent: { x: number; width: number; size: number },
    depth: number,
  ): void => {
    const scale = parent.width / Math.max(parent.size, sum(siblings.map(rowSize)), 1e-9);
    let { x } = parent;
    for (const row of siblings) {
      const [node, size] = [numberAt(row, "node"), rowSize(row)];
      const tile = { row, node, depth, x, width: size * scale };
      x += tile.width;
      if (tile.width < MIN_TILE_PX) continue;
      tiles.push(tile);
      placeRows(children.get(node) ?? [], { ...tile, size }, depth + 1);
    }
  };
  placeRows(topRows, { x: 0, width, size: 0 }, 0);
  return tiles;
}

/** Return the style of unpaired tiles. Only the start is hatched, to keep text readable. */
function unpairedStyle(background: string, theme: ThemeName): Record<string, string> {
  const { color } = classStyle("only_here", theme);
  return {
    background:
      `linear-gradient(90deg, transparent ${HATCH_PX}px, ${background} 0), ` +
      `repeating-linear-gradient(135deg, ${color} 0 2px, ${background} 2px 5px)`,
    paddingLeft: `${HATCH_PX + 4}px`,
  };
}

/** A frame of the selected rank pair, or of all ranks. */
export interface FrameOfRanks {
  frame: PanelFrame;
  /** The rank pair; null for all ranks. */
  pair: number | null;
  /** Names the ranks if some compared ranks are not included; otherwise "". */
  ranksText: string;
}

export class Icicle extends DiffPanel<FrameOfRanks> {
  /** `chooseNode` receives the clicked node and the node that is topmost afterwards. */
  constructor(
    ctx: DiffContext,
    private readonly chooseNode: (node: number, top: number, name: string) => void,
  ) {
    super(ctx, "The operators", { class: "hta-diff-pane hta-diff-icicle" });
  }

  override show(shown: FrameOfRanks): void {
    super.show(shown);
    this.ctx.treeOf = shown.pair;
  }

  private zoomTo(top: number): void {
    this.ctx.choice.value = { ...this.ctx.choice.value, top };
  }

  protected draw({ frame, ranksText }: FrameOfRanks) {
    const width = this.width.value;
    const { top } = this.ctx.choice.value;
    const tiles = width === 0 ? [] : placeTiles(frame, top, width - 32);
    const depthCount = tiles.reduce((max, { depth }) => Math.max(max, depth + 1), 0);
    // A hidden panel has zero width and therefore no tiles, so test the frame instead.
    const isEmpty = rowsOf(frame).every((row) => rowSize(row) === 0);
    this.el.hidden = isEmpty && frameNote(frame) === "";
    return (
      <>
        <div class="hta-diff-head">
          <h3>{`Operators, including what they launch${ranksText && `, ${ranksText}`}`}</h3>
          {this.scale()}
        </div>
        <p class="hta-about">
          {`${this.measureText(frame)} a step. The width shows the longer of both runs, the colour the change. ` +
            "Click: zoom in, and mark the calls on both timelines."}
        </p>
        {top >= 0 && this.crumbs(frame, top)}
        {frame.rows === 0 && <p class="hta-note">{capitalizeSentence(frameNote(frame))}</p>}
        <div class="hta-diff-tiles" style={{ height: `${depthCount * ROW_PX}px` }}>
          {tiles.map((tile) => this.tile(tile))}
        </div>
      </>
    );
  }

  private measureText({ attrs }: PanelFrame): string {
    const { communication } = this.ctx.about.kind_words;
    const deviceText = communication === undefined ? "device time" : `time in ${communication}`;
    const text = attrs.measure === "host" ? "time on the host" : deviceText;
    return attrs.without_waiting === true ? `${text} without waiting for other ranks,` : text;
  }

  private scale() {
    const theme = this.ctx.theme.value;
    return (
      <span class="hta-diff-scale" role="img" aria-label="green is faster, magenta slower">
        faster −85 %
        {THEMES[theme].delta.map((color) => (
          <i style={{ background: color }} />
        ))}
        +85 % slower
        <b class="hta-diff-swatch" style={classCss(classStyle("only_here", theme))} />
        new or gone
      </span>
    );
  }

  private crumbs(frame: PanelFrame, top: number) {
    const byNode = new Map(rowsOf(frame).map((row) => [numberAt(row, "node"), row]));
    const path: FrameRow[] = [];
    let row = byNode.get(top);
    while (row !== undefined) {
      path.unshift(row);
      row = byNode.get(numberAt(row, "parent"));
    }
    return (
      <p class="hta-diff-crumbs">
        <Link text="all" press={() => this.zoomTo(-1)} />
        {path.flatMap((row) => [
          " › ",
          <Link text={shortName(row)} press={() => this.zoomTo(numberAt(row, "node"))} />,
        ])}
      </p>
    );
  }

  private tile({ row, node, depth, x, width }: IcicleTile) {
    const [before, after] = [numberAt(row, "before_ns"), numberAt(row, "after_ns")];
    const diff = after - before;
    const name = shortName(row);
    const isUnpaired = before <= 0 || after === 0;
    const shareOrGone = after === 0 ? "gone" : shareText(diff, before);
    const changeText = before <= 0 ? "new" : shareOrGone;
    const counts = countsText(numberAt(row, "before_count"), numberAt(row, "after_count"));
    const theme = this.ctx.theme.value;
    const background = deltaColor(isUnpaired ? 0 : diff / before, theme);
    const { top, node: markedNode } = this.ctx.choice.value;
    return (
      <button
        key={node}
        type="button"
        class={node === markedNode ? "hta-diff-tile hta-on" : "hta-diff-tile"}
        data-node={node}
        title={
          `${textAt(row, "name")}\n${formatDuration(before)} → ${formatDuration(after)} a step, ` +
          `${deltaText(diff)} ${changeText}\ncount a step ${counts}`
        }
        style={{
          left: `${x}px`,
          top: `${depth * ROW_PX}px`,
          width: `${Math.max(width - 1, 1)}px`,
          color: readableOn(rgb(background), TEXT_COLORS),
          ...(isUnpaired ? unpairedStyle(background, theme) : { background }),
        }}
        onClick={() => this.chooseNode(node, top === node ? numberAt(row, "parent") : node, name)}
      >
        {width >= LABEL_PX && (
          <span>{width >= LONG_LABEL_PX ? `${name} ${changeText}` : name}</span>
        )}
      </button>
    );
  }
}
