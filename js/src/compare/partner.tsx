/** Describe an event and its partner on the other side in words. */

import { formatDuration } from "../ui/formats";
import type { DiffContext } from "./context";
import { deltaText, type PairedEvents, shareText } from "./frames";

/** Describe a pair of events: name, both durations, difference and status. */
export function pairText({ events, status }: PairedEvents): {
  name: string;
  words: string;
  delta: string;
} {
  const [first, second] = events;
  const name = (second ?? first)?.short ?? "";
  if (first === null || second === null) {
    if (status === null) return { name, words: "not compared: outside the steps", delta: "" };
    const duration = formatDuration((first ?? second)?.dur ?? null);
    const side = first === null ? "after only" : "before only";
    return { name, words: `${duration}, ${side}: ${status}`, delta: "" };
  }
  const diff = second.dur - first.dur;
  const statusText = status === "same" || status === "changed" ? "" : ` · ${status}`;
  return {
    name: first.short === second.short ? name : `${first.short} → ${second.short}`,
    words: `${formatDuration(first.dur)} → ${formatDuration(second.dur)}`,
    delta: `${deltaText(diff)} ${shareText(diff, first.dur)}${statusText}`,
  };
}

/** Show the pair under the pointer, or else the selected pair. */
export function PairLine({ ctx }: { ctx: DiffContext }) {
  const pair = ctx.hoveredPair.value ?? ctx.selectedPair.value;
  const text = pair === null ? null : pairText(pair);
  return (
    <span class="hta-diff-pair" aria-live="polite">
      {text === null ? (
        <span class="hta-note">Hover over an event to see its match.</span>
      ) : (
        <>
          <b>{text.name}</b>
          {` ${text.words} `}
          <b>{text.delta}</b>
        </>
      )}
    </span>
  );
}
