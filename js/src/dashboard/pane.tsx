/** The frame around a panel: its menu, and its message while it is loading, failed or empty. */

import type { ReadonlySignal } from "@preact/signals";
import type { VNode } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { ChartSlot } from "../charts/chart";
import type { PanelFrame } from "../protocol/source";
import { FailureNote, Select, Skeleton } from "../ui/controls";
import { MenuButton } from "../ui/menu";
import { capitalizeSentence, emptyPanelText } from "../ui/text";
import type { DashContext } from "./context";
import type { PanelState } from "./panel_data";
import { panelExports } from "./share";
import type { PanelNumbers } from "./name_table";

interface PaneProps {
  ctx: DashContext;
  id: string;
  /** The panel's element in the grid. */
  el: HTMLElement;
  state: ReadonlySignal<PanelState>;
  draw(numbers: PanelNumbers): VNode;
  /** Controls next to the title of a panel that draws nothing. */
  tools(): VNode | null;
  retry(): void;
}

export function Pane({ ctx, id, el, state, draw, tools, retry }: PaneProps) {
  const title = ctx.titleOf(id);
  const { frame, isStale, error } = state.value;
  const marked = useMarkedFrame(frame, ctx);
  const isFolding = frame !== null && ctx.folding.value.isPending;
  useLayoutEffect(() => {
    el.classList.toggle("hta-stale", isStale && frame !== null);
    el.setAttribute("aria-busy", String(isStale));
    // The estimated height is kept until similar ranks share rows, so that panels below stay put.
    el.style.maxHeight = isFolding ? el.style.minHeight : "";
    el.style.overflowY = isFolding ? "auto" : "";
    if (!isFolding && (frame !== null || error !== null)) el.style.minHeight = "";
  });
  const placeholder = placeholderOf(marked, error, retry);
  return (
    <>
      {placeholder !== null && (
        <>
          <header class="hta-pane-head">
            <h3>{title}</h3>
            {tools()}
          </header>
          <div class="hta-pane-said">{placeholder}</div>
        </>
      )}
      <div class="hta-pane-body" hidden={placeholder !== null}>
        {marked !== null &&
          marked.rows > 0 &&
          draw({ frame: marked, chosen: ctx.selectionState.chartSelection.value })}
      </div>
      <MenuButton
        icon="more"
        name={`${title}: save, copy, hide`}
        class="hta-pane-more"
        items={() => [
          ...panelExports(ctx, id),
          { text: "Hide this panel", press: () => ctx.showPanel(id, false) },
        ]}
      />
    </>
  );
}

/** Return what to show instead of a panel's content; null if the panel has content. */
function placeholderOf(
  frame: PanelFrame | null,
  error: Error | null,
  retry: () => void,
): VNode | null {
  if (error !== null)
    return <FailureNote title="These numbers cannot be shown" error={error} retry={retry} />;
  if (frame === null) {
    return (
      <>
        <p class="hta-note hta-on-screen">Computing…</p>
        <p class="hta-on-paper">Not computed yet. Scroll to this panel, then print again.</p>
        <Skeleton lines={4} />
      </>
    );
  }
  if (frame.rows > 0) return null;
  return <p>{capitalizeSentence(emptyPanelText(frame, "nothing here is selected"))}</p>;
}

/** Add job facts and the ranks to mark and fold. The same input gives the same object. */
function useMarkedFrame(
  frame: PanelFrame | null,
  { headline, folding, scene }: DashContext,
): PanelFrame | null {
  const headlineValue = headline.value;
  const { groups: folded } = folding.value;
  const { ranks } = scene.value;
  return useMemo(() => {
    if (frame === null) return null;
    const { late_ranks = [], fact_ranks = [] } = headlineValue ?? {};
    const roles = ranks.flatMap(({ summary }) => summary.map(({ role }) => role));
    const absent_kinds = roles.includes("comm") ? [] : ["communication"];
    const job_ranks = ranks.length;
    const facts = { late_ranks, fact_ranks, folded, absent_kinds, job_ranks };
    return { ...frame, attrs: { ...frame.attrs, ...facts } };
  }, [frame, headlineValue, folded, ranks]);
}

export function ElementSlot({ el }: { el: HTMLElement }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => place.current!.append(el), [el]);
  return <div ref={place} />;
}

export function ChartPlace({ slot, frame, chosen: selected }: PanelNumbers & { slot: ChartSlot }) {
  useLayoutEffect(() => slot.show(frame, selected), [slot, frame, selected]);
  return <ElementSlot el={slot.el} />;
}

/** A chart with the measure selector next to the title. */
export function MeasuredChart({
  children,
  ...choice
}: Parameters<typeof Select>[0] & { children: VNode }) {
  return (
    <div class="hta-heat">
      <Select {...choice} class="hta-input hta-heat-metric" />
      {children}
    </div>
  );
}
