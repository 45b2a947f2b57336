/** The headline and the findings of a job, as Python computes them. */

import type { SelectionJson } from "../protocol/source";

/** A piece of a sentence: text, or a rank that can be chosen; `fact`: no other rank waits for it. */
export type HeadlinePiece = string | { rank: number; text?: string; fact?: boolean };

export interface Finding {
  label: string;
  text: string;
  selection: SelectionJson;
}

export interface HeadlineFacts {
  headline: HeadlinePiece[];
  more: HeadlinePiece[][];
  /** The ranks for which other ranks wait. */
  late_ranks?: number[];
  /** The ranks of pieces with `fact`. */
  fact_ranks?: number[];
  /** The most important first. */
  findings?: Finding[];
}

/** The first sentence of the headline; "" while it is unknown. */
export function headlineText(facts: HeadlineFacts | null): string {
  const pieces = facts?.headline ?? [];
  return pieces.map((piece) => (typeof piece === "string" ? piece : rankText(piece))).join("");
}

export function rankText({ rank, text = `rank ${rank}` }: { rank: number; text?: string }): string {
  return text;
}
