/** What there is room for, as classes for the styles. */

import { toggle } from "./dom";

/** Below this width chips and search fold into a button each. */
export const NARROW_PX = 900;
/** Below this width the hint of keys has no room, and badges are brief. */
export const TIGHT_PX = 760;
/** From this width on the tables of totals have all their columns. */
const ROOMY_PX = 1060;
/** From this width on the colour mode is written out. */
const WIDE_PX = 1280;

export function markWidth(root: HTMLElement, width: number): void {
  toggle(root, "hta-narrow", width < NARROW_PX);
  toggle(root, "hta-tight", width < TIGHT_PX);
  toggle(root, "hta-roomy", width >= ROOMY_PX);
  toggle(root, "hta-wide", width >= WIDE_PX);
}
