/** The operator trees of both runs as one icicle, coloured by the difference. */

import { classLook, lookStyle } from "../facts/event_classes";
import type { Frame, ThemeName } from "../protocol/source";
import { betterOn, rgb } from "../stage/paints";
import { fill, h } from "../ui/dom";
import { formatDuration } from "../ui/formats";
import { THEMES } from "../ui/theme";
import {
  countWords,
  deltaColour,
  deltaWords,
  noteOf,
  number,
  type Row,
  rowsOf,
  shareWords,
  text,
} from "./frames";
import { WidePane } from "./pane";

interface Tile {
  row: Row;
  node: number;
  depth: number;
  x: number;
  width: number;
}

/** The node at the top, and the one that is marked; -1 for all, and for none. */
export interface IcicleChoice {
  top: number;
  node: number;
}

const ROW = 20;
const LEAST_PX = 2;
const LABEL_PX = 30;
/** How far the lines of what is on one side alone reach. */
const HATCH_PX = 10;
const INKS = ["#ffffff", "#12171e"] as const;

const size = (row: Row): number => Math.max(number(row, "before_ns"), number(row, "after_ns"));

/** The tiles below a node (-1: of all) that are wide enough to see, in a width of px. */
export function placeTiles(frame: Frame, top: number, width: number): Tile[] {
  const children = new Map<number, Row[]>();
  let focus: Row | null = null;
  for (const row of rowsOf(frame)) {
    const parent = number(row, "parent");
    if (number(row, "node") === top) focus = row;
    const list = children.get(parent);
    if (list === undefined) children.set(parent, [row]);
    else list.push(row);
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

/** What has no partner is hatched at its start, as on the timelines; behind it words stay readable. */
function aloneStyle(ground: string, theme: ThemeName): Record<string, string> {
  const { colour } = classLook("only_here", theme);
  return {
    background:
      `linear-gradient(90deg, transparent ${HATCH_PX}px, ${ground} 0), ` +
      `repeating-linear-gradient(135deg, ${colour} 0 2px, ${ground} 2px 5px)`,
    "padding-left": `${HATCH_PX + 4}px`,
  };
}

export class Icicle extends WidePane {
  readonly el = h("section", { class: "hta-diff-pane hta-diff-icicle" });
  private frame: Frame | null = null;
  private top = -1;
  private revealed = -1;
  private whose = "";

  /** `choose` hears first of a tile; `words` are what the formats call kinds otherwise. */
  constructor(
    private readonly choose: (node: number, name: string) => void,
    private readonly words: Record<string, string> = {},
  ) {
    super();
  }

  /** `whose`: of which ranks, where not of all that are compared. */
  show(frame: Frame, whose = ""): void {
    if (whose !== this.whose) this.top = this.revealed = -1;
    this.whose = whose;
    this.frame = frame;
    this.draw();
  }

  /** What is shown, and which tile is marked in it. */
  get choice(): IcicleChoice {
    return { top: this.top, node: this.revealed };
  }

  setChoice({ top, node }: IcicleChoice): void {
    this.revealed = node;
    this.zoom(top);
  }

  /** In place of all: why it cannot be drawn. */
  fail(why: HTMLElement): void {
    this.frame = null;
    this.el.hidden = false;
    fill(this.el, why);
  }

  /** Where a call was selected on a timeline. */
  reveal(node: number): void {
    this.revealed = node;
    for (const tile of this.el.querySelectorAll<HTMLElement>("[data-node]")) {
      tile.classList.toggle("hta-on", Number(tile.dataset.node) === node);
    }
  }

  protected draw(): void {
    const { frame, width } = this;
    if (frame === null || width === 0) return;
    const tiles = placeTiles(frame, this.top, width - 32);
    const deep = tiles.reduce((most, { depth }) => Math.max(most, depth + 1), 0);
    this.el.hidden = tiles.length === 0 && noteOf(frame) === "";
    const { measure, without_waiting: alone } = frame.attrs;
    const { communication } = this.words;
    const time = communication === undefined ? "device time" : `time in ${communication}`;
    const what = `${measure === "host" ? "time on the host" : time}${alone === true ? " without waiting for other ranks" : ""}`;
    fill(
      this.el,
      h(
        "div",
        { class: "hta-diff-head" },
        h("h3", {}, `Operators, what they launch included${this.whose && `, ${this.whose}`}`),
        this.scale(),
      ),
      h(
        "p",
        { class: "hta-about" },
        `${what}, a step; as wide as the longer of both runs, coloured by the change. ` +
          "Click: zoom in, and mark the calls on both timelines.",
      ),
      this.crumbs(frame),
      frame.rows === 0 && h("p", { class: "hta-note" }, noteOf(frame)),
      h(
        "div",
        { class: "hta-diff-tiles", style: { height: `${deep * ROW}px` } },
        ...tiles.map((tile) => this.tile(tile)),
      ),
    );
  }

  private scale(): HTMLElement {
    const colours = THEMES[this.theme].delta;
    return h(
      "span",
      { class: "hta-diff-scale", role: "img", "aria-label": "green is faster, magenta slower" },
      "faster −85 %",
      ...colours.map((colour) => h("i", { style: { background: colour } })),
      "+85 % slower",
      h("b", { class: "hta-diff-swatch", style: lookStyle(classLook("only_here", this.theme)) }),
      "new or gone",
    );
  }

  /** The way from the top to what is shown. */
  private crumbs(frame: Frame): HTMLElement | false {
    if (this.top < 0) return false;
    const byNode = new Map(rowsOf(frame).map((row) => [number(row, "node"), row]));
    const way: Row[] = [];
    for (let at = byNode.get(this.top); at !== undefined; at = byNode.get(number(at, "parent"))) {
      way.unshift(at);
    }
    const link = (name: string, node: number): HTMLElement =>
      h(
        "button",
        { type: "button", class: "hta-link", on: { click: () => this.zoom(node) } },
        name,
      );
    return h(
      "p",
      { class: "hta-diff-crumbs" },
      link("all", -1),
      ...way.flatMap((row) => [
        " › ",
        link(text(row, "short") || text(row, "name"), number(row, "node")),
      ]),
    );
  }

  private zoom(node: number): void {
    this.top = node;
    this.draw();
  }

  private tile({ row, node, depth, x, width }: Tile): HTMLElement {
    const [before, after] = [number(row, "before_ns"), number(row, "after_ns")];
    const diff = after - before;
    const name = text(row, "short") || text(row, "name");
    const share = before > 0 ? diff / before : after > 0 ? Infinity : 0;
    const state = before === 0 ? "new" : after === 0 ? "gone" : shareWords(diff, before);
    const counts = countWords(number(row, "before_count"), number(row, "after_count"));
    const alone = !Number.isFinite(share) || after === 0;
    const ground = deltaColour(alone ? 0 : share, this.theme);
    return h(
      "button",
      {
        type: "button",
        class: node === this.revealed ? "hta-diff-tile hta-on" : "hta-diff-tile",
        "data-node": node,
        title:
          `${text(row, "name")}\n${formatDuration(before)} → ${formatDuration(after)} a step, ` +
          `${deltaWords(diff)} ${state}\ncount a step ${counts}`,
        style: {
          left: `${x}px`,
          top: `${depth * ROW}px`,
          width: `${Math.max(width - 1, 1)}px`,
          color: betterOn(rgb(ground), INKS),
          ...(alone ? aloneStyle(ground, this.theme) : { background: ground }),
        },
        on: {
          click: () => {
            this.choose(node, name);
            this.setChoice({ top: this.top === node ? number(row, "parent") : node, node });
          },
        },
      },
      width >= LABEL_PX && h("span", {}, width >= 140 && state !== "" ? `${name} ${state}` : name),
    );
  }
}
