/** Format numbers. Spaces within a number or before its unit are thin and do not break. */

import { THIN_SPACE, groupDigits } from "../facts/rank_text";

const MINUS = "\u2212";
const UNKNOWN = "–";

const TIME_UNITS: readonly (readonly [name: string, ns: number])[] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
];

function toSignificant(value: number, digits: number): string {
  const integerDigits = Math.max(1, Math.floor(Math.log10(value) + 1e-12) + 1);
  const text = value.toFixed(Math.max(0, digits - integerDigits));
  // Rounding may add a digit: 9.996 becomes 10.0, not 10.00.
  return text.replace(".", "").length > digits && text.includes(".")
    ? value.toFixed(Math.max(0, digits - integerDigits - 1))
    : text;
}

/** Format a duration with three significant digits: `1.21 ms`, `148 ms`, `415 ns`. */
export function formatDuration(ns: number | null): string {
  if (ns === null || !Number.isFinite(ns)) return UNKNOWN;
  const size = Math.abs(ns);
  const sign = ns < 0 ? MINUS : "";
  for (const [unit, scale] of TIME_UNITS) {
    if (size >= scale * 0.9995)
      return `${sign}${groupDigits(toSignificant(size / scale, 3))}${THIN_SPACE}${unit}`;
  }
  const text = Number.isInteger(size) ? String(size) : toSignificant(Math.max(size, 0.001), 3);
  return `${sign}${text}${THIN_SPACE}ns`;
}

/** Format a difference of durations: `+24.8 ms`, `−3.00 µs`, `±0 ns`. */
export function formatDurationDelta(ns: number): string {
  if (ns === 0) return `±0${THIN_SPACE}ns`;
  return (ns > 0 ? "+" : MINUS) + formatDuration(Math.abs(ns));
}

/** Format a point in time to the microsecond: `451.975 ms`, or `3.451 975 s` from 1 s on. */
export function formatTime(ns: number): string {
  const size = Math.abs(ns);
  const sign = ns < 0 ? MINUS : "";
  if (size < 1e9) return `${sign}${(size / 1e6).toFixed(3)}${THIN_SPACE}ms`;
  const [integerPart = "", fraction = ""] = (size / 1e9).toFixed(6).split(".");
  return `${sign}${groupDigits(integerPart)}.${fraction.slice(0, 3)}${THIN_SPACE}${fraction.slice(3)}${THIN_SPACE}s`;
}

/** Format a time down to the nanosecond: `451 975 123 ns`. */
export function formatExact(ns: number): string {
  return `${ns < 0 ? MINUS : ""}${groupDigits(String(Math.abs(Math.round(ns))))}${THIN_SPACE}ns`;
}

/**
 * Format an axis tick with the decimals that the tick distance requires. `maxMagnitude` is the
 * largest time on the axis; it is needed to show `95.15 ms` instead of `95 150 µs`.
 */
export function formatAxis(ns: number, step: number, maxMagnitude = 0): string {
  let [unit, scale] = TIME_UNITS[2]!;
  if (step >= 1e9 || maxMagnitude >= 1e9) [unit, scale] = TIME_UNITS[0]!;
  else if (step >= 1e5 || maxMagnitude >= 1e6) [unit, scale] = TIME_UNITS[1]!;
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
  const text = (Math.abs(ns) / scale).toFixed(decimals);
  return `${ns < 0 && Number(text) !== 0 ? MINUS : ""}${groupDigits(text)}${THIN_SPACE}${unit}`;
}

/** Format a share: `66 %`, `2.8 %`, `<1 %`. An unknown share is shown as `–`. */
export function formatShare(share: number | null): string {
  if (share === null || !Number.isFinite(share)) return UNKNOWN;
  if (share <= 0) return `0${THIN_SPACE}%`;
  if (share < 0.01) return `<1${THIN_SPACE}%`;
  if (share >= 0.995 && share < 1) return `>99${THIN_SPACE}%`;
  return `${(share * 100).toFixed(share >= 0.0995 ? 0 : 1)}${THIN_SPACE}%`;
}

/** Format a relative change: `+60 %`, `−2.8 %`, `±0 %`. */
export function formatShareDelta(share: number): string {
  const size = Math.abs(share);
  const text = size >= 0.0995 ? (size * 100).toFixed(0) : (size * 100).toFixed(1);
  if (Number(text) === 0) return `±0${THIN_SPACE}%`;
  return `${share > 0 ? "+" : MINUS}${groupDigits(text)}${THIN_SPACE}%`;
}

/** Format a count: `215 456`. */
export function formatCount(count: number | null): string {
  if (count === null || !Number.isFinite(count)) return UNKNOWN;
  return (count < 0 ? MINUS : "") + groupDigits(String(Math.abs(Math.round(count))));
}

const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB", "PB"] as const;

/** Format a number of bytes with decimal units: `26.6 MB`. */
export function formatBytes(bytes: number | null): string {
  return formatScaled(bytes, BYTE_UNITS);
}

const FLOP_UNITS = ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"] as const;

/** Format a number of FLOPs: `51.6 GFLOP`. */
export function formatFlops(flops: number | null): string {
  return formatScaled(flops, FLOP_UNITS);
}

function formatScaled(amount: number | null, units: readonly string[]): string {
  if (amount === null || !Number.isFinite(amount)) return UNKNOWN;
  let value = Math.abs(amount);
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const text = unit === 0 || value === 0 ? String(Math.round(value)) : toSignificant(value, 3);
  return `${amount < 0 ? MINUS : ""}${text}${THIN_SPACE}${units[unit]}`;
}

/** Format a bin limit of message sizes, which is a power of two: `64 KiB`. */
export function formatBinarySize(high: number): string {
  if (high < 0) return "none";
  for (const [unit, scale] of [
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
    ["KiB", 2 ** 10],
  ] as const) {
    if (high >= scale) return `${Math.floor(high / scale)}${THIN_SPACE}${unit}`;
  }
  return `${high}${THIN_SPACE}B`;
}

/** Format a range of sizes: `5–8 B`, or `no size` for calls without a size. */
export function formatSizeRange(low: number, high: number): string {
  if (high < 0) return "no size";
  const [from, to] = [formatBinarySize(low), formatBinarySize(high)];
  return from === to ? to : joinRange(from, to);
}

/** Format a counter value with up to four significant digits; large values are grouped. */
export function formatValue(value: number, unit = ""): string {
  if (!Number.isFinite(value)) return UNKNOWN;
  if (unit === "bytes" || unit === "B") return formatBytes(value);
  const size = Math.abs(value);
  let text = groupDigits(size.toFixed(0));
  if (Number.isInteger(value)) text = groupDigits(String(size));
  else if (size < 1000) text = String(Number(size.toPrecision(4)));
  return `${value < 0 ? MINUS : ""}${text}${unit === "" ? "" : THIN_SPACE + unit}`;
}

/** Format a test's p value without line breaks: `p 0.043`, `p 1`, `p < 0.0001`. */
export function formatPValue(p: number): string {
  return p < 0.0001 ? "p\u00a0<\u00a00.0001" : `p\u00a0${Number(p.toPrecision(2))}`;
}

/** Return "1 problem", "3 problems". */
export function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Return `13.0–31.0 ms`, or both durations with their units if the units differ. */
export function formatRange(min: number, max: number): string {
  return joinRange(formatDuration(min), formatDuration(max));
}

/** Join two formatted amounts into a range. A unit that they share is written once. */
export function joinRange(low: string, high: string): string {
  // The space that groups the digits of large numbers also precedes the unit.
  const unit = /\u202f[^\d\u202f]+$/u.exec(low)?.[0] ?? "";
  return high.endsWith(unit)
    ? `${low.slice(0, low.length - unit.length)}–${high}`
    : `${low}–${high}`;
}

/** Return the term for everything that is loaded: a job, or an export of part of a job. */
export function wholeRunName(scene: { part?: unknown }): string {
  return scene.part ? "whole export" : "whole job";
}
