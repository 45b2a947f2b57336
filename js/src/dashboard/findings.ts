/** The headline and the findings of a job, computed in Python. */

import type { SelectionJson } from "../protocol/source";

/** A piece of a sentence: text, or a rank to select. With `fact`, no other rank waits for it. */
export type HeadlinePiece = string | { rank: number; text?: string; fact?: boolean };

export interface Finding {
  label: string;
  text: string;
  selection: SelectionJson;
}

export interface HeadlineFacts {
  headline: HeadlinePiece[];
  more: HeadlinePiece[][];
  /** The ranks that other ranks wait for. */
  late_ranks?: number[];
  /** The ranks of the pieces with `fact`. */
  fact_ranks?: number[];
  /** In order of importance. */
  findings?: Finding[];
}

/** Return the first sentence of the headline; "" until it is loaded. */
export function headlineText(facts: HeadlineFacts | null): string {
  const pieces = facts?.headline ?? [];
  return pieces.map((piece) => (typeof piece === "string" ? piece : rankText(piece))).join("");
}

export function rankText({ rank, text = `rank ${rank}` }: { rank: number; text?: string }): string {
  return text;
}
