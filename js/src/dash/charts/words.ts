/** The texts, lines and plates of a sheet, in CSS px until they are handed to its sources. */

import type { Column } from "./bokeh";

export type Align = "left" | "center" | "right";

/** From px to the sheet's own coordinates. */
export interface Scale {
  x(px: number): number;
  y(px: number): number;
}

export class Words {
  private readonly texts: [number, number, string, string, Align, string, string][] = [];
  private readonly lines: [number, number, number, number, string][] = [];
  private readonly boxes: [number, number, number, number, string][] = [];

  text(
    x: number,
    y: number,
    text: string,
    color: string,
    style: { align?: Align; bold?: boolean; size?: number } = {},
  ): void {
    if (text === "") return;
    const weight = style.bold === true ? "bold" : "normal";
    this.texts.push([x, y, text, color, style.align ?? "left", weight, `${style.size ?? 11}px`]);
  }

  line(x0: number, y0: number, x1: number, y1: number, color: string): void {
    this.lines.push([x0, x1, y0, y1, color]);
  }

  /** A plate below a text that would else be hard to read. */
  plate(left: number, top: number, right: number, bottom: number, color: string): void {
    this.boxes.push([left, right, top, bottom, color]);
  }

  wordColumns(scale: Scale): Record<string, Column> {
    return Words.columns(scale, this);
  }

  /** The texts of several at once. */
  static columns(scale: Scale, ...all: readonly Words[]): Record<string, Column> {
    const texts = all.flatMap((words) => words.texts);
    const of = (at: number): unknown[] => texts.map((each) => each[at]);
    return {
      x: texts.map((each) => scale.x(each[0])),
      y: texts.map((each) => scale.y(each[1])),
      text: of(2),
      color: of(3),
      align: of(4),
      style: of(5),
      size: of(6),
    };
  }

  ruleColumns(scale: Scale): Record<string, Column> {
    return {
      x0: this.lines.map((each) => scale.x(each[0])),
      x1: this.lines.map((each) => scale.x(each[1])),
      y0: this.lines.map((each) => scale.y(each[2])),
      y1: this.lines.map((each) => scale.y(each[3])),
      color: this.lines.map((each) => each[4]),
    };
  }

  plateColumns(scale: Scale): Record<string, Column> {
    return {
      left: this.boxes.map((each) => scale.x(each[0])),
      right: this.boxes.map((each) => scale.x(each[1])),
      top: this.boxes.map((each) => scale.y(each[2])),
      bottom: this.boxes.map((each) => scale.y(each[3])),
      color: this.boxes.map((each) => each[4]),
    };
  }
}
