/** A canvas context, as far as the drawings use one, that writes SVG. */

import { FONT_FAMILY } from "../theme";
import { attribute, escaped, num, type Sheet } from "./sheet";

interface Settings {
  fillStyle: string;
  strokeStyle: string;
  lineWidth: number;
  lineJoin: string;
  globalAlpha: number;
  font: string;
  textAlign: string;
  textBaseline: string;
}

const DEFAULTS: Settings = {
  fillStyle: "#000000",
  strokeStyle: "#000000",
  lineWidth: 1,
  lineJoin: "miter",
  globalAlpha: 1,
  font: `11px ${FONT_FAMILY}`,
  textAlign: "left",
  textBaseline: "alphabetic",
};

const ANCHORS: Readonly<Record<string, string>> = { right: "end", center: "middle" };

class SvgContext implements Settings {
  fillStyle = DEFAULTS.fillStyle;
  strokeStyle = DEFAULTS.strokeStyle;
  lineWidth = DEFAULTS.lineWidth;
  lineJoin = DEFAULTS.lineJoin;
  globalAlpha = DEFAULTS.globalAlpha;
  font = DEFAULTS.font;
  textAlign = DEFAULTS.textAlign;
  textBaseline = DEFAULTS.textBaseline;
  private readonly saved: { settings: Settings; groups: number }[] = [];
  private groups = 0;
  private data = "";
  /** The rectangles of the current path, where it has nothing else. */
  private rects: [x: number, y: number, width: number, height: number][] | null = [];
  private clips = 0;

  constructor(
    private readonly sheet: Sheet,
    private readonly ruler: CanvasRenderingContext2D,
  ) {}

  setTransform(): void {
    // Everything comes in CSS px.
  }

  save(): void {
    const { fillStyle, strokeStyle, lineWidth, lineJoin, globalAlpha } = this;
    const { font, textAlign, textBaseline } = this;
    const settings = { fillStyle, strokeStyle, lineWidth, lineJoin, globalAlpha };
    this.saved.push({
      settings: { ...settings, font, textAlign, textBaseline },
      groups: this.groups,
    });
    this.groups = 0;
  }

  restore(): void {
    const last = this.saved.pop();
    if (last === undefined) return;
    if (this.groups > 0) this.sheet.add("</g>".repeat(this.groups));
    this.groups = last.groups;
    Object.assign(this, last.settings);
  }

  beginPath(): void {
    this.data = "";
    this.rects = [];
  }

  moveTo(x: number, y: number): void {
    this.line(`M${num(x)} ${num(y)}`);
  }

  lineTo(x: number, y: number): void {
    this.line(`L${num(x)} ${num(y)}`);
  }

  bezierCurveTo(...places: [number, number, number, number, number, number]): void {
    this.line(`C${places.map(num).join(" ")}`);
  }

  closePath(): void {
    this.line("z");
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.rects?.push([x, y, width, height]);
    this.data += boxPath(x, y, width, height);
  }

  /** Whole circles only. */
  arc(x: number, y: number, radius: number): void {
    const r = num(radius);
    this.line(`M${num(x - radius)} ${num(y)}a${r} ${r} 0 1 0 ${num(2 * radius)} 0`);
    this.line(`a${r} ${r} 0 1 0 ${num(-2 * radius)} 0z`);
  }

  clip(): void {
    this.clips += 1;
    const id = this.sheet.define(
      (name) => `<clipPath id="${name}"><path d="${this.data}"/></clipPath>`,
      `clip-${this.clips}`,
    );
    this.sheet.add(`<g clip-path="url(#${id})">`);
    this.groups += 1;
  }

  fill(): void {
    const fill = attribute("fill", this.fillStyle, this.globalAlpha);
    if (this.rects !== null) {
      for (const [x, y, width, height] of this.rects) {
        this.sheet.box(x, y, x + width, y + height, fill);
      }
    } else this.sheet.add(`<path d="${this.data}" ${fill}/>`);
  }

  stroke(): void {
    this.sheet.add(`<path d="${this.data}" fill="none" ${this.pen()}/>`);
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    const fill = attribute("fill", this.fillStyle, this.globalAlpha);
    this.sheet.box(x, y, x + width, y + height, fill);
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    const data = boxPath(x, y, width, height);
    this.sheet.add(`<path d="${data}" fill="none" ${this.pen()}/>`);
  }

  clearRect(): void {
    // A sheet is blank.
  }

  fillText(text: string, x: number, y: number): void {
    const [, weight, size = "11"] = /^(?:(\d+) )?([\d.]+)px/.exec(this.font) ?? [];
    const anchor = ANCHORS[this.textAlign];
    const more = [
      attribute("fill", this.fillStyle, this.globalAlpha),
      anchor === undefined ? "" : ` text-anchor="${anchor}"`,
      weight === undefined ? "" : ` font-weight="${weight}"`,
      size === "11" ? "" : ` font-size="${size}"`,
    ];
    this.sheet.add(`<text x="${num(x)}" y="${num(y)}" ${more.join("")}>${escaped(text)}</text>`);
  }

  measureText(text: string): TextMetrics {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  /** A bitmap of few plain colours, as boxes of its runs. */
  drawImage(image: HTMLCanvasElement, x: number, y: number, width: number, height: number): void {
    const { width: across, height: down } = image;
    const bytes = image.getContext("2d")?.getImageData(0, 0, across, down).data;
    if (bytes === undefined) return;
    const px = new Uint32Array(bytes.buffer);
    const [dx, dy] = [width / across, height / down];
    for (let column = 0; column < across; column += 1) {
      let from = 0;
      for (let row = 1; row <= down; row += 1) {
        const colour = px[from * across + column]!;
        if (row < down && px[row * across + column] === colour) continue;
        const [r, g, b] = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
        const fill = attribute("fill", `rgb(${r} ${g} ${b})`, this.globalAlpha);
        const left = x + column * dx;
        this.sheet.box(left, y + from * dy, left + dx, y + row * dy, fill);
        from = row;
      }
    }
  }

  private line(data: string): void {
    this.rects = null;
    this.data += data;
  }

  private pen(): string {
    const { strokeStyle, globalAlpha, lineWidth, lineJoin } = this;
    const wide = lineWidth === 1 ? "" : ` stroke-width="${num(lineWidth)}"`;
    const join = lineJoin === "miter" ? "" : ` stroke-linejoin="${lineJoin}"`;
    return attribute("stroke", strokeStyle, globalAlpha) + wide + join;
  }
}

function boxPath(x: number, y: number, width: number, height: number): string {
  return `M${num(x)} ${num(y)}h${num(width)}v${num(height)}h${num(-width)}z`;
}

/** A context for a `Pen`; `ruler` knows how wide text is. */
export function svgContext(
  sheet: Sheet,
  ruler: CanvasRenderingContext2D,
): CanvasRenderingContext2D {
  return new SvgContext(sheet, ruler) as unknown as CanvasRenderingContext2D;
}
