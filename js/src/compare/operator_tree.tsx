/** The operator trees of both runs as one icicle, coloured by the difference. */

import { classLook, lookStyle } from "../facts/event_classes";
import { getOrMake } from "../protocol/maps";
import type { Frame, ThemeName } from "../protocol/source";
import { betterOn, rgb } from "../stage/paints";
import { Link } from "../ui/controls";
import { formatDuration } from "../ui/formats";
import { noteOf, sentence } from "../ui/text";
import { THEMES } from "../ui/theme";
import type { Context } from "./context";
import {
  countWords,
  deltaColour,
  deltaWords,
  number,
  type Row,
  rowsOf,
  shareWords,
  text,
} from "./frames";
import { Part } from "./pane";

interface Tile {
  row: Row;
  node: number;
  depth: number;
  x: number;
  width: number;
}

const ROW = 20;
const LEAST_PX = 2;
const LABEL_PX = 30;
/** Width of the hatch on tiles without a partner. */
const HATCH_PX = 10;
const INKS = ["#ffffff", "#12171e"] as const;

const size = (row: Row): number => Math.max(number(row, "before_ns"), number(row, "after_ns"));

/** Place the tiles below a node (-1: all) that are wide enough to see, in a width of px. */
export function placeTiles(frame: Frame, top: number, width: number): Tile[] {
  const children = new Map<number, Row[]>();
  let focus: Row | null = null;
  for (const row of rowsOf(frame)) {
    if (number(row, "node") === top) focus = row;
    getOrMake(children, number(row, "parent"), () => []).push(row);
  }
  const tiles: Tile[] = [];
  const place = (row: Row, x: number, wide: number, depth: number): void => {
    if (wide < LEAST_PX) return;
    const node = number(row, "node");
    tiles.push({ row, node, depth, x, width: wide });
    spread(children.get(node) ?? [], x, wide, size(row), depth + 1);
  };
  const spread = (rows: Row[], x: number, wide: number, whole: number, depth: number): void => {
    const sum = rows.reduce((total, row) => total + size(row), 0);
    const scale = wide / Math.max(whole, sum, 1e-9);
    let at = x;
    for (const row of rows) {
      const own = size(row) * scale;
      place(row, at, own, depth);
      at += own;
    }
  };
  if (focus !== null) place(focus, 0, width, 0);
  else spread(children.get(-1) ?? [], 0, width, 0, 0);
  return tiles;
}

/** Style of tiles without a partner: hatched at the start only, so that text stays readable. */
function aloneStyle(ground: string, theme: ThemeName): Record<string, string> {
  const { colour } = classLook("only_here", theme);
  return {
    background:
      `linear-gradient(90deg, transparent ${HATCH_PX}px, ${ground} 0), ` +
      `repeating-linear-gradient(135deg, ${colour} 0 2px, ${ground} 2px 5px)`,
    paddingLeft: `${HATCH_PX + 4}px`,
  };
}

/** A frame of the chosen pair of ranks, or of all. */
export interface OfRanks {
  frame: Frame;
  /** The pair of ranks; null for all. */
  of: number | null;
  /** Text on the ranks, if not all that are compared. */
  whose: string;
}

export class Icicle extends Part<OfRanks> {
  /** `choose` is called with a tile, and the node that is then at the top. */
  constructor(
    ctx: Context,
    private readonly choose: (node: number, top: number, name: string) => void,
  ) {
    super(ctx, "The operators", { class: "hta-diff-pane hta-diff-icicle" });
  }

  override show(shown: OfRanks): void {
    super.show(shown);
    this.ctx.treeOf = shown.of;
  }

  private zoom(top: number): void {
    this.ctx.choice.value = { ...this.ctx.choice.value, top };
  }

  protected draw({ frame, whose }: OfRanks) {
    const width = this.width.value;
    const { top } = this.ctx.choice.value;
    const tiles = width === 0 ? [] : placeTiles(frame, top, width - 32);
    const deep = tiles.reduce((most, { depth }) => Math.max(most, depth + 1), 0);
    this.el.hidden = width > 0 && tiles.length === 0 && noteOf(frame) === "";
    const { measure, without_waiting: alone } = frame.attrs;
    const { communication } = this.ctx.about.kind_words;
    const time = communication === undefined ? "device time" : `time in ${communication}`;
    const what = `${measure === "host" ? "time on the host" : time}${alone === true ? " without waiting for other ranks" : ""}`;
    return (
      <>
        <div class="hta-diff-head">
          <h3>{`Operators, what they launch included${whose && `, ${whose}`}`}</h3>
          {this.scale()}
        </div>
        <p class="hta-about">
          {`${what}, a step; as wide as the longer of both runs, coloured by the change. ` +
            "Click: zoom in, and mark the calls on both timelines."}
        </p>
        {top >= 0 && this.crumbs(frame, top)}
        {frame.rows === 0 && <p class="hta-note">{sentence(noteOf(frame))}</p>}
        <div class="hta-diff-tiles" style={{ height: `${deep * ROW}px` }}>
          {tiles.map((tile) => this.tile(tile))}
        </div>
      </>
    );
  }

  private scale() {
    const theme = this.ctx.theme.value;
    return (
      <span class="hta-diff-scale" role="img" aria-label="green is faster, magenta slower">
        faster −85 %
        {THEMES[theme].delta.map((colour) => (
          <i style={{ background: colour }} />
        ))}
        +85 % slower
        <b class="hta-diff-swatch" style={lookStyle(classLook("only_here", theme))} />
        new or gone
      </span>
    );
  }

  /** The path from the top to the shown node. */
  private crumbs(frame: Frame, top: number) {
    const byNode = new Map(rowsOf(frame).map((row) => [number(row, "node"), row]));
    const way: Row[] = [];
    for (let at = byNode.get(top); at !== undefined; at = byNode.get(number(at, "parent"))) {
      way.unshift(at);
    }
    return (
      <p class="hta-diff-crumbs">
        <Link text="all" press={() => this.zoom(-1)} />
        {way.flatMap((row) => [
          " › ",
          <Link
            text={text(row, "short") || text(row, "name")}
            press={() => this.zoom(number(row, "node"))}
          />,
        ])}
      </p>
    );
  }

  private tile({ row, node, depth, x, width }: Tile) {
    const [before, after] = [number(row, "before_ns"), number(row, "after_ns")];
    const diff = after - before;
    const name = text(row, "short") || text(row, "name");
    const share = before > 0 ? diff / before : after > 0 ? Infinity : 0;
    const state = before === 0 ? "new" : after === 0 ? "gone" : shareWords(diff, before);
    const counts = countWords(number(row, "before_count"), number(row, "after_count"));
    const alone = !Number.isFinite(share) || after === 0;
    const theme = this.ctx.theme.value;
    const ground = deltaColour(alone ? 0 : share, theme);
    const { top, node: marked } = this.ctx.choice.value;
    return (
      <button
        key={node}
        type="button"
        class={node === marked ? "hta-diff-tile hta-on" : "hta-diff-tile"}
        data-node={node}
        title={
          `${text(row, "name")}\n${formatDuration(before)} → ${formatDuration(after)} a step, ` +
          `${deltaWords(diff)} ${state}\ncount a step ${counts}`
        }
        style={{
          left: `${x}px`,
          top: `${depth * ROW}px`,
          width: `${Math.max(width - 1, 1)}px`,
          color: betterOn(rgb(ground), INKS),
          ...(alone ? aloneStyle(ground, theme) : { background: ground }),
        }}
        onClick={() => this.choose(node, top === node ? number(row, "parent") : node, name)}
      >
        {width >= LABEL_PX && (
          <span>{width >= 140 && state !== "" ? `${name} ${state}` : name}</span>
        )}
      </button>
    );
  }
}
