/** Differences as colours and words: green is faster, magenta slower, grey the same. */

import type { ThemeName } from "../contract";
import { formatCount, formatDurationDelta, formatShareDelta } from "../draw/format";

interface Ramp {
  faster: [string, string, string];
  same: string;
  slower: [string, string, string];
}

export const DELTAS: Readonly<Record<ThemeName, Ramp>> = {
  light: {
    faster: ["#b5dc8e", "#5a9a2f", "#2b6318"],
    same: "#eceef1",
    slower: ["#efb3d3", "#c2277f", "#80074f"],
  },
  dark: {
    faster: ["#35561f", "#6fb53c", "#b9e795"],
    same: "#2a313c",
    slower: ["#6a2148", "#d8479b", "#f7a8d3"],
  },
};

/** Within this nothing is called slower or faster. */
export const SAME_SHARE = 0.02;

/** The colour of a change as a share of before; `full` is where the scale ends. */
export function deltaColour(share: number, theme: ThemeName, full = 1): string {
  const ramp = DELTAS[theme];
  if (!Number.isFinite(share)) return (share > 0 ? ramp.slower : ramp.faster)[2];
  if (Math.abs(share) <= SAME_SHARE) return ramp.same;
  const steps = share > 0 ? ramp.slower : ramp.faster;
  const at = Math.abs(share) / full;
  return steps[at < 0.4 ? 0 : at < 0.85 ? 1 : 2];
}

/** The middle step: for bars, whose length says how much. */
export function barColour(diff: number, theme: ThemeName): string {
  const ramp = DELTAS[theme];
  return diff === 0 ? ramp.same : (diff > 0 ? ramp.slower : ramp.faster)[1];
}

/** `+60 %`; without a before there is no share. */
export function shareWords(diff: number, before: number): string {
  return before > 0 ? formatShareDelta(diff / before) : "";
}

export function deltaWords(diff: number): string {
  return formatDurationDelta(Math.round(diff));
}

function times(count: number): string {
  return Number.isInteger(count) || Math.abs(count) >= 100
    ? formatCount(count)
    : count.toFixed(1).replace(/\.0$/, "");
}

/** `18 → 4 645`, `new 218`, `gone 6`, or the one number. */
export function countWords(before: number, after: number): string {
  if (before === 0 && after > 0) return `new ${times(after)}`;
  if (after === 0 && before > 0) return `gone ${times(before)}`;
  return before === after ? times(before) : `${times(before)} → ${times(after)}`;
}
