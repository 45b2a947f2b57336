/** What matters most, in a sentence or three, as Python has found it. */

import { fill, h, type Child } from "../app/dom";

import type { SelectionJson } from "../contract";

/** A piece of a sentence: text, or a rank that can be chosen; `fact`: others do not wait for it. */
export type HeadPiece = string | { rank: number; text?: string; fact?: boolean };

export interface HeadlineFacts {
  headline: HeadPiece[];
  more: HeadPiece[][];
  /** The ranks that the others wait for. */
  late_ranks?: number[];
  /** The ranks of pieces with `fact`. */
  fact_ranks?: number[];
  /** What each finding selects, what matters most first. */
  findings?: { label: string; text: string; selection: SelectionJson }[];
}

export class Headline {
  readonly el = h("div", { class: "hta-headline", hidden: true });

  constructor(private readonly chooseRank: (rank: number, add: boolean) => void) {}

  /** What it says; "" while that is not known. */
  get text(): string {
    return this.el.querySelector("h2")?.textContent ?? "";
  }

  show(facts: HeadlineFacts | null): void {
    this.el.hidden = facts === null || facts.headline.length === 0;
    if (facts === null) return;
    fill(
      this.el,
      h("h2", {}, ...this.pieces(facts.headline)),
      facts.more.length > 0 &&
        h("p", {}, ...facts.more.flatMap((one, at) => [at > 0 ? " " : "", ...this.pieces(one)])),
    );
  }

  private pieces(pieces: readonly HeadPiece[]): Child[] {
    return pieces.map((piece) =>
      typeof piece === "string"
        ? piece
        : h(
            "button",
            {
              type: "button",
              class: `hta-rank-link${piece.fact === true ? " hta-rank-fact" : ""}`,
              title: `Select rank ${piece.rank}`,
              on: {
                click: (event: MouseEvent) =>
                  this.chooseRank(piece.rank, event.ctrlKey || event.metaKey || event.shiftKey),
              },
            },
            piece.text ?? `rank ${piece.rank}`,
          ),
    );
  }
}
