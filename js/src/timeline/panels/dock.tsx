/** The area below the lanes that contains a timeline's panels. */

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { activeElement } from "../../ui/dom";
import { watchBoxes } from "../../ui/host";
import { visibleRect } from "../../ui/placing";
import type { Stage } from "../../stage/stage";
import type { EventSelection } from "../selected_event";
import type { PanelControl, PanelId } from "./control";
import { EventPanel } from "./event";
import { GapPanel } from "./gap";
import { AreaPanel } from "./selection";

const PANELS = {
  event: { name: "Selected event", Panel: EventPanel },
  area: { name: "Selection", Panel: AreaPanel },
  gap: { name: "Idle time", Panel: GapPanel },
};

/** Shows one panel below the lanes, moved up over the lanes if it would be out of view. */
export function PanelDock({ panels }: { panels: PanelControl }) {
  const { shown } = panels;
  const { ctx, picking } = panels.app;
  const id = shown.value;
  const place = useRef<HTMLElement>(null);
  const before = useRef<PanelId | null>(null);
  const isOpening = before.current === null && id !== null;
  const { current: drawn } = place;
  const hadFocus = drawn?.contains(activeElement(drawn)) === true;
  useLayoutEffect(() => {
    const el = place.current!;
    before.current = id;
    // If the focused element was removed, focus the root, because keys must not reach the page.
    if (hadFocus && !el.contains(activeElement(el))) ctx.focus();
    if (id !== null) moveIntoView(el, picking, ctx.stage);
  });
  useEffect(() => {
    const el = place.current!;
    const reveal = (): void => {
      if (shown.value !== null) moveIntoView(el, picking, ctx.stage);
    };
    const { signal } = ctx;
    document.addEventListener("scroll", reveal, { capture: true, passive: true, signal });
    window.addEventListener("resize", reveal, { signal });
    // The lanes' height may change. Moving the panel may change it again, which a size observer
    // must not do synchronously.
    watchBoxes([el.parentElement!], () => requestAnimationFrame(reveal), signal);
    const observer = new IntersectionObserver(reveal, { threshold: [0, 0.25, 0.5, 0.75, 0.98, 1] });
    observer.observe(el);
    return () => observer.disconnect();
  }, []);
  const { name, Panel } = id === null ? { Panel: null } : PANELS[id];
  return (
    <section
      ref={place}
      class={`hta-dock${isOpening ? " hta-opening" : ""}`}
      hidden={id === null}
      aria-label={name}
      data-panel={id}
    >
      {Panel !== null && <Panel panels={panels} />}
    </section>
  );
}

const EVENT_GAP_PX = 6;

/**
 * Move a panel into the visible part of the timeline without covering its event's row. Scroll the
 * row up if possible. Otherwise, put the panel above the row if it fits, or directly below it.
 */
function moveIntoView(el: HTMLElement, picking: EventSelection, stage: Stage): void {
  const root = el.parentElement;
  if (root === null) return;
  let row = picking.rowExtent;
  const visibleBox = visibleRect(root);
  const availablePx = row === null ? Infinity : visibleBox.bottom - row.bottom - EVENT_GAP_PX;
  el.style.setProperty("--hta-panel-available", `${Math.min(availablePx, window.innerHeight)}px`);
  const box = el.getBoundingClientRect();
  const before = Number(el.dataset.shift ?? 0);
  const [top, bottom] = [box.top + before, box.bottom + before];
  const maxScroll = top - root.getBoundingClientRect().top;
  let shift = Math.min(Math.max(bottom - visibleBox.bottom, 0), maxScroll);
  const coveredPx = row === null || shift === 0 ? 0 : row.bottom - (top - shift);
  if (row !== null && coveredPx > 0 && row.top - coveredPx >= row.minTop) {
    stage.scrollBy(coveredPx);
    row = picking.rowExtent;
  }
  if (row !== null && shift > 0 && row.bottom > top - shift) {
    const shiftAboveRow = bottom - (row.top - EVENT_GAP_PX);
    const shiftUpToRow = Math.max(top - row.bottom - EVENT_GAP_PX, 0);
    const fitsAbove = top - shiftAboveRow >= visibleBox.top;
    shift = fitsAbove ? Math.max(shiftAboveRow, shift) : shiftUpToRow;
  }
  el.classList.toggle("hta-over", shift > 0);
  if (shift === before) return;
  el.dataset.shift = String(shift);
  el.style.transform = shift === 0 ? "" : `translateY(${-shift}px)`;
}
