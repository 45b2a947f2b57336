/** Small line icons in the colour of their text; drawn here, because fonts differ. */

import { svg } from "./dom";

const PATHS = {
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.4 10.4 14 14",
  undo: "M6 3 2.5 6.5 6 10M2.5 6.5H10a3.5 3.5 0 0 1 0 7H6.5",
  redo: "M10 3l3.5 3.5L10 10M13.5 6.5H6a3.5 3.5 0 0 0 0 7h3.5",
  filter: "M2.5 3.5h11L9.5 8.5v4l-3 1.5V8.5z",
  close: "M4 4l8 8M12 4l-8 8",
  up: "M4 10l4-4 4 4",
  down: "M4 6l4 4 4-4",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  check: "M3 8.5 6.5 12 13 4.5",
  color:
    "M8 2.5v11M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 4.8l4.6 3M8 8.2l5 2.2M8 11.4l2.6 1.2",
  fold: "M2.5 8h11M8 1.5v4M6 3.8 8 5.8l2-2M8 14.5v-4M6 12.2 8 10.2l2 2",
  pin: "M6 2.5h4M6.7 2.5 6.2 7 4 9.5h8L9.8 7l-.5-4.5M8 9.5v4.5",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  warn: "M8 2.2 14.4 13.5H1.6zM8 6.2v3.6M8 11.4v.6",
} as const;

export type IconName = keyof typeof PATHS;

export function icon(name: IconName): SVGSVGElement {
  return svg(
    "svg",
    { class: "hta-icon", viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" },
    svg("path", { d: PATHS[name] }),
  );
}
