/** The panel about a device's idle gap: its causes, what the host did, and what ended it. */

import type { ComponentChildren } from "preact";
import { CAUSE_FACTS } from "../../facts/panels";
import { deviceOf } from "../../protocol/scene";
import type { Brief, Gap } from "../../protocol/source";
import { Button, CloseButton, EventLink, type FactRow, FactList } from "../../ui/controls";
import {
  formatCount,
  formatDuration,
  formatExact,
  formatShare,
  formatTime,
  plural,
} from "../../ui/formats";
import { capitalizeSentence } from "../../ui/text";
import type { TimelineContext } from "../context";
import type { PanelControl } from "./control";

/** Return a text such as `the host loads data, 72 % of it`. */
function causeText({ causes, start, end }: Gap): string {
  const [first] = causes;
  if (first === undefined) return "";
  const meaning = CAUSE_FACTS[first.cause]?.meaning ?? first.cause;
  return `${meaning}, ${formatShare(first.time / (end - start))} of it`;
}

export function GapPanel({ panels }: { panels: PanelControl }) {
  const { ctx, nav, picking, gapSelection } = panels.app;
  const { value: gap } = gapSelection.gap;
  if (gap === null) return null;
  const goTo = (brief: Brief): void => picking.goTo(brief);
  const zoom = (): void => nav.toggleZoom(picking.windowTarget());
  const { start, end } = gap;
  const [cause] = gap.causes;
  return (
    <div class="hta-panel hta-details hta-gap">
      <div class="hta-column hta-what">
        <div class="hta-head">
          <h3 class="hta-short">{`${deviceOf(ctx.scene)} idle ${formatDuration(end - start)}`}</h3>
          <Button text="Zoom" name="Zoom to the gap" keys="F" showKey press={zoom} />
          {panels.hasArea && (
            <Button text="Totals" name="Totals of the window" press={() => panels.show("area")} />
          )}
          <CloseButton close={() => panels.close()} />
        </div>
        <p class="hta-gap-words">
          {cause !== undefined && <b>{`${capitalizeSentence(causeText(gap))} `}</b>}
          {cause !== undefined && CAUSE_FACTS[cause.cause]?.advice}
        </p>
        <FactList rows={gapFacts(gap, goTo)} />
      </div>
      <HostTimes gap={gap} ctx={ctx} goTo={goTo} />
    </div>
  );
}

function HostTimes(props: { gap: Gap; ctx: TimelineContext; goTo(brief: Brief): void }) {
  const { gap, ctx, goTo } = props;
  const [first] = gap.host;
  const unrecorded = gap.end - gap.start - gap.host_time;
  const maxTime = Math.max(first?.time ?? 0, unrecorded, 1);
  return (
    <div class="hta-column">
      <div class="hta-head">
        <h3>The host during the gap</h3>
        {first !== undefined && (
          <span class="hta-note hta-grow">
            {`${ctx.lanes.locate(first.longest.lane)?.track?.label ?? ""} · self time`}
          </span>
        )}
      </div>
      <div class="hta-scroll" tabIndex={0} role="group" aria-label="What the host did">
        {gap.host.map(({ longest, count, time }) => (
          <HostRow time={time} maxTime={maxTime} note={`${formatCount(count)}×`}>
            <EventLink event={longest} goTo={goTo} />
          </HostRow>
        ))}
        {unrecorded > 0 && (
          <HostRow time={unrecorded} maxTime={maxTime} note="">
            <span class="hta-note">nothing recorded</span>
          </HostRow>
        )}
      </div>
    </div>
  );
}

function HostRow(props: {
  time: number;
  maxTime: number;
  note: string;
  children: ComponentChildren;
}) {
  const { time, maxTime, note, children } = props;
  return (
    <div class="hta-gap-row">
      {children}
      <span class="hta-sumplace" aria-hidden="true">
        <span class="hta-sumbar" data-kind="cpu" style={{ width: `${(time / maxTime) * 100}%` }} />
      </span>
      <span class="hta-number" title={formatExact(time)}>
        {formatDuration(time)}
      </span>
      <span class="hta-number hta-note">{note}</span>
    </div>
  );
}

function gapFacts(
  { rank, start, end, causes, ends, launch }: Gap,
  goTo: (brief: Brief) => void,
): FactRow[] {
  const length = end - start;
  const rows: FactRow[] = [
    {
      name: "Idle",
      value: `100\u202f% of rank ${rank}, ${formatTime(start)} to ${formatTime(end)}`,
      title: formatExact(length),
      className: "wrapped",
    },
    { name: "Ended by", value: <EventLink event={ends} goTo={goTo} />, title: ends.name },
  ];
  if (launch !== null) {
    const delay = formatDuration(Math.abs(launch.start - start));
    const text = `called ${delay} ${launch.start < start ? "before the gap" : "into it"}`;
    const value = [<EventLink event={launch} goTo={goTo} />, <span class="hta-note">{text}</span>];
    rows.push({ name: "Launched by", value, className: "line" });
  }
  causes.forEach(({ cause, time }, index) => {
    const { label = cause, meaning = "" } = CAUSE_FACTS[cause] ?? {};
    const value = `${label} ${formatDuration(time)}, ${formatShare(time / length)}`;
    const name = index === 0 ? "Causes" : "";
    rows.push({ name, value, title: meaning, className: "wrapped" });
  });
  return rows;
}

export function gapLines(gap: Gap, device: string): [string, string] {
  const [first] = gap.host;
  const host = first === undefined ? "" : `; host: ${first.longest.short}`;
  const more = gap.host.length > 1 ? ` and ${plural(gap.host.length - 1, "other name")}` : "";
  return [
    `${device} idle ${formatDuration(gap.end - gap.start)}`,
    `${causeText(gap)}${host}${more}`,
  ];
}
