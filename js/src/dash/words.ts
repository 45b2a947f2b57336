/** A selection in words, dimension by dimension. */

import { spanText } from "../app/words";
import type { Scene, SelectionJson } from "../contract";
import { formatDuration, plural, rangesText } from "../draw/format";
import type { Part } from "./choice";
import { readClauses } from "./clauses";

export interface Phrase {
  part: Part;
  text: string;
  /** All of it, where the text is short of something. */
  full?: string;
}

const MOST_NAMES = 2;

/** What each dimension says; none where everything is selected. */
export function phrasesOf(selection: SelectionJson | null, scene: Scene): Phrase[] {
  if (selection === null) return [];
  const out: Phrase[] = [];
  const { start_ns: start, end_ns: end, ranks, tracks, ids } = selection;
  if (ranks !== null) {
    out.push({
      part: "ranks",
      text:
        ranks.length === 0
          ? "no rank"
          : `rank${ranks.length === 1 ? "" : "s"} ${rangesText(ranks)}`,
      full: ranks.join(", "),
    });
  }
  if (start !== null || end !== null) {
    const span = [start ?? scene.range[0], end ?? scene.range[1]] as const;
    out.push({
      part: "window",
      text: `${spanText(span)} (${formatDuration(span[1] - span[0])})`,
      full: `${span[0]} to ${span[1]} ns`,
    });
  }
  if (tracks !== null) {
    const only = tracks.length === 1 ? tracks[0] : undefined;
    out.push({
      part: "tracks",
      text: only ?? plural(tracks.length, "track"),
      full: tracks.join("\n"),
    });
  }
  const { names, kinds, rest } = readClauses(selection.query);
  if (names !== null) out.push({ part: "names", ...listed("name", names) });
  if (kinds !== null) out.push({ part: "kinds", ...listed("kind", kinds) });
  if (rest !== null) out.push({ part: "rest", text: rest, full: rest });
  if (ids !== null) out.push({ part: "ids", text: plural(ids.length, "event") });
  return out;
}

function listed(noun: string, values: readonly string[]): { text: string; full: string } {
  const full = values.join("\n");
  const shown = values.slice(0, MOST_NAMES).join(" or ");
  const more = values.length - MOST_NAMES;
  if (values.length === 0) return { text: `no ${noun}`, full };
  return { text: `${noun} ${shown}${more > 0 ? ` or ${more} more` : ""}`, full };
}
