/** The frames of a comparison: asked for once, kept, and turned round where the page is. */

import type { Source } from "../contract";
import type { PanelFrame } from "../dash/types";

export type Frame = PanelFrame;
export type Row = Record<string, unknown>;

/** What the widget says of the comparison before any frame is made. */
export interface About {
  labels: [string, string];
  facts: string;
  cautions: { kind: string; text: string }[];
  /** What the runs ran on differently, as a sentence; "" where that is the same. */
  conditions?: string;
  rank_pairs: [number, number][];
  by_rank_means: boolean;
  steps: number;
  matched: string;
  all_matched: boolean;
  /** What these formats call kinds of time otherwise. */
  kind_words?: Record<string, string>;
  has_events: boolean;
  has_device: boolean;
  /** All answers of a kernel together are a matter of an instant: they may come in one. */
  is_small?: boolean;
  tables: string[];
  /** Of a saved page that has not all of them: the steps that can be chosen, and that in words. */
  held_steps?: number[];
  held_words?: string;
  /** Of a page without a kernel: the pairs of ranks that can be chosen. */
  held_pairs?: number[];
}

export function rowsOf(frame: Frame): Row[] {
  const names = Object.keys(frame.columns);
  return Array.from({ length: frame.rows }, (_, row) =>
    Object.fromEntries(names.map((name) => [name, frame.columns[name]?.[row]])),
  );
}

export function number(row: Row, name: string): number {
  const value = row[name];
  return typeof value === "number" ? value : 0;
}

export function text(row: Row, name: string): string {
  const value = row[name];
  return typeof value === "string" ? value : "";
}

/** Why a frame is as it is, in words; "" for nothing to say. */
export function noteOf({ attrs }: Frame): string {
  return typeof attrs.note === "string" ? attrs.note : "";
}

const OPPOSITE: Record<string, string> = {
  added: "removed",
  removed: "added",
  slower: "faster",
  faster: "slower",
};

/** The same frame of the comparison the other way round. */
export function turned(frame: Frame): Frame {
  const columns: Record<string, PanelFrame["columns"][string]> = {};
  for (const [name, values] of Object.entries(frame.columns)) {
    if (name.startsWith("before_")) columns[`after_${name.slice(7)}`] = values;
    else if (name.startsWith("after_")) columns[`before_${name.slice(6)}`] = values;
    else if (/(^|_)(diff|delta)(_|$)/.test(name)) {
      columns[name] = values.map((one) => (typeof one === "number" ? 0 - one : one));
    } else if (name === "change" || name === "status") {
      columns[name] = values.map((one) => OPPOSITE[String(one)] ?? one);
    } else if (name === "side") {
      columns[name] = values.map((one) => (one === 0 ? 1 : one === 1 ? 0 : one));
    } else columns[name] = values;
  }
  const attrs: Frame["attrs"] = {};
  for (const [name, value] of Object.entries(frame.attrs)) {
    if (name.startsWith("before_")) attrs[`after_${name.slice(7)}`] = value;
    else if (name.startsWith("after_")) attrs[`before_${name.slice(6)}`] = value;
    else attrs[name] = value;
  }
  return { rows: frame.rows, columns, attrs };
}

export class Frames {
  private readonly kept = new Map<string, Promise<Frame>>();

  constructor(
    private readonly source: Source,
    private readonly signal: AbortSignal,
  ) {}

  get(name: string): Promise<Frame> {
    return this.kept.get(name) ?? this.keep(name, this.alone(name));
  }

  /** Ask for several in one go; one that is not in the answer is asked for by itself. */
  askFor(names: readonly string[]): void {
    const unknown = names.filter((name) => !this.kept.has(name));
    const asked = this.source
      .ask("frames", { names: unknown }, this.signal)
      .then(({ reply }) => reply.frames as Record<string, Frame | undefined>)
      .catch((): Record<string, Frame | undefined> => ({}));
    for (const name of unknown) {
      void this.keep(
        name,
        asked.then((frames) => frames[name] ?? this.alone(name)),
      );
    }
  }

  private async alone(name: string): Promise<Frame> {
    const { reply } = await this.source.ask("frame", { name }, this.signal);
    return reply as unknown as Frame;
  }

  private keep(name: string, frame: Promise<Frame>): Promise<Frame> {
    this.kept.set(name, frame);
    // What failed may be asked for again.
    frame.catch(() => this.kept.delete(name));
    return frame;
  }
}

/** Names of both sides without what they begin with alike. */
export function shortLabels([one, two]: readonly [string, string]): [string, string] {
  let at = 0;
  while (at < one.length && one[at] === two[at]) at += 1;
  const start =
    Math.max(...["_", "-", "/", ".", " "].map((mark) => one.slice(0, at).lastIndexOf(mark))) + 1;
  const short: [string, string] = [one.slice(start), two.slice(start)];
  return one === two || short.some((name) => name.length < 3) ? [one, two] : short;
}
