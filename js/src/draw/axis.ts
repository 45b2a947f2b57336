import { formatAxis } from "./format";

export interface Ticks {
  step: number;
  times: number[];
}

/** The smallest step of 1, 2 or 5 times a power of ten that is at least `least`. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least) + 1e-12);
  for (const factor of [1, 2, 5]) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/**
 * Ticks at round times: nine at most, fewer where labels would touch. `widthOf` measures a label
 * in the unit of `width`.
 */
export function timeTicks(
  start: number,
  end: number,
  width: number,
  widthOf: (label: string) => number,
): Ticks {
  const span = end - start;
  if (!(span > 0) || width <= 0) return { step: 1, times: [] };
  let step = Math.max(niceStep(span / 9), 1e-3);
  for (let tries = 0; tries < 6; tries += 1) {
    const label = formatAxis(Math.max(Math.abs(start), Math.abs(end)), step);
    if ((step / span) * width >= widthOf(label) + 20) break;
    step = niceStep(step * 1.5);
  }
  const times: number[] = [];
  const first = Math.ceil(start / step - 1e-9);
  const last = Math.floor(end / step + 1e-9);
  // Multiples, not a running sum: sums of 0.1 drift.
  for (let index = first; index <= last; index += 1) times.push(index * step);
  return { step, times };
}
