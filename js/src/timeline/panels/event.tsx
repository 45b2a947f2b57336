/** An event's details panel, with its collective and a histogram. */

import { useSignal } from "@preact/signals";
import {
  type Brief,
  type Collective,
  type EventDetail,
  type Flow,
  flowLabel,
  type Kind,
  type Member,
  type SameName,
} from "../../protocol/source";
import {
  Button,
  CloseButton,
  type Copy,
  CopyButton,
  CutName,
  EventLink,
  type FactRow,
  FactList,
  FailureNote,
  Kbd,
  Link,
  Swatch,
  Tabs,
} from "../../ui/controls";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatExact,
  formatRange,
  formatShareDelta,
  formatTime,
  formatValue,
  plural,
} from "../../ui/formats";
import { kindName } from "../../ui/text";
import type { TimelineContext } from "../context";
import type { EventSelection } from "../selected_event";
import { findSourceLine, openInHost, type SourceLine } from "../source_line";
import { cutText, eventCode, lastRankOf, waitsText } from "../text";
import { figureRows } from "./call_figures";
import type { PanelControl } from "./control";

/** Maximum number of arrows that are listed individually: a graph launch has thousands. */
const FLOWS_SHOWN = 4;
const PARENTS_SHOWN = 2;

interface EventPanelProps {
  panels: PanelControl;
}

export function EventPanel({ panels }: EventPanelProps) {
  const { picking } = panels.app;
  const { copy, hasArea } = panels;
  const { brief, detail, error } = picking.stateSignal.value;
  const name = detail?.event.name ?? brief?.name ?? "";
  const retry = (): void => picking.retry();
  return (
    <div class="hta-panel hta-details">
      <div class="hta-column hta-what">
        <div class="hta-head">
          {brief !== null && <Swatch kind={brief.kind} />}
          <h3 class="hta-short" title={brief?.name}>
            {brief?.short ?? "Event"}
          </h3>
          {hasArea && <Tabs current="event" other={() => panels.show("area")} />}
          <CloseButton close={() => panels.close()} words={hasArea ? "" : "selected"} />
        </div>
        {error !== null && (
          <FailureNote title="The event cannot be shown" error={error} retry={retry} />
        )}
        {error === null && brief === null && <p class="hta-note">Loading the event…</p>}
        {error === null && brief !== null && (
          <>
            <div class="hta-full">
              <code title={name}>{name}</code>
              <CopyButton copy={copy} text={() => name} what="the full name" />
            </div>
            <EventFacts panels={panels} brief={brief} />
          </>
        )}
      </div>
      <div class="hta-column hta-compare">
        {brief !== null && <Comparison picking={picking} ownRank={brief.rank} />}
      </div>
      <div class="hta-column hta-rest">
        <Arguments detail={detail} copy={copy} />
        {brief !== null && <Actions panels={panels} brief={brief} />}
      </div>
    </div>
  );
}

/** Compare the event with its collective's other ranks or, if it has none, with its namesakes. */
function Comparison({ picking, ownRank }: { picking: EventSelection; ownRank: number }) {
  const { detail, collective, error } = picking.stateSignal.value;
  if (collective !== null) {
    const goTo = (rank: number, id: number): void =>
      picking.pick({ rank, table: "events", id }, null);
    return <CollectivePanel collective={collective} ownRank={ownRank} goTo={goTo} />;
  }
  if (detail !== null) return <Histogram detail={detail} />;
  if (error !== null) return null;
  return (
    <div>
      <h3>This name on its rank</h3>
      <p class="hta-note">…</p>
    </div>
  );
}

function EventFacts({ panels, brief }: EventPanelProps & { brief: Brief }) {
  const { ctx, picking } = panels.app;
  const { detail, collective, figures } = picking.stateSignal.value;
  const goTo = (other: Brief): void => picking.goTo(other);
  /** Whether the lists of the event `of` are shown in full. */
  const expanded = useSignal({ of: "", flows: false, parents: false });
  const of = picking.key.value;
  const open = expanded.value.of === of ? expanded.value : { of, flows: false, parents: false };
  const placeRows = placeFacts(detail?.event ?? brief, ctx);
  if (detail === null) return <FactList rows={placeRows} />;
  const chain = (name: string, parents: readonly Brief[]): FactRow[] => {
    const expand = (): void => void (expanded.value = { ...open, parents: true });
    return chainRows(name, parents, open.parents ? null : expand, goTo);
  };
  const source = findSourceLine(detail);
  const { same, launched_by: launch, kernels, flows } = detail;
  const { rank, kind, category, step, correlation } = detail.event;
  const shownFlows = open.flows ? flows : flows.slice(0, FLOWS_SHOWN);
  const moreFlows = flows.length - shownFlows.length;
  const expandFlows = (): void => void (expanded.value = { ...open, flows: true });
  const moreLink = <Link text={`${formatCount(moreFlows)} more`} press={expandFlows} />;
  const rows: (FactRow | false)[] = [
    source !== null && sourceRow(source, panels.copy),
    ...placeRows,
    ...(launch === null ? [] : launchRows(launch, chain, goTo)),
    ...(figures === null ? [] : figureRows(figures, brief)),
    ...callRows(rank, collective),
    kernels !== null && launchedRow(kernels, (ids) => picking.selectIds(rank, ids)),
    ...flowRows(shownFlows, goTo),
    moreFlows > 0 && { name: "", value: moreLink },
    ...chain("Inside", detail.parents),
    same !== null && sameNameRow(same),
    { name: "Kind", value: [kindName(kind), category].filter(Boolean).join(" · ") },
    step !== null && step >= 0 && { name: "Step", value: stepText(step, category) },
    correlation !== null && correlation >= 0 && { name: "Correlation", value: String(correlation) },
  ];
  return <FactList rows={rows.filter((row) => row !== false)} />;
}

/** Return when and where an event is. */
function placeFacts(event: Brief, { lanes, scene }: TimelineContext): FactRow[] {
  const track = lanes.locate(event.lane)?.track;
  const places = [`rank ${event.rank}`, track?.process, track?.label];
  const placeText = places.filter(Boolean).join(" · ");
  const cut = cutText(event, scene);
  return [
    { name: "Start", value: formatTime(event.start), title: formatExact(event.start) },
    { name: "Duration", value: formatDuration(event.dur), title: formatExact(event.dur) },
    { name: "Where", value: placeText, title: placeText },
    ...(cut === "" ? [] : [{ name: "Cut", value: cut, title: cut }]),
  ];
}

/** Return the innermost enclosing events, outermost first, and a link that calls `expand`. */
function chainRows(
  name: string,
  parents: readonly Brief[],
  expand: (() => void) | null,
  goTo: (brief: Brief) => void,
): FactRow[] {
  if (parents.length === 0) return [];
  const outermost = [...parents].reverse();
  const shown = expand === null ? outermost : outermost.slice(-PARENTS_SHOWN);
  const links = shown.map((parent) => <EventLink event={parent} goTo={goTo} />);
  if (expand !== null && shown.length < outermost.length)
    links.unshift(<Link text="…" title="Show all enclosing events" press={expand} />);
  const value = links.flatMap((link, index) => (index === 0 ? [link] : [" › ", link]));
  const title = outermost.map(({ short }) => short).join(" › ");
  return [{ name, value, title, className: expand === null ? "wrapped" : "chain" }];
}

/** Return the operator, module and Python function that launched a device event. */
function launchRows(
  { operators, modules, frames, shapes, forward }: NonNullable<EventDetail["launched_by"]>,
  chain: (name: string, parents: readonly Brief[]) => FactRow[],
  goTo: (brief: Brief) => void,
): FactRow[] {
  const forwardLink = forward && <EventLink event={forward} goTo={goTo} />;
  return [
    ...chain("Operator", operators),
    ...(shapes === "" ? [] : [{ name: "Inputs", value: shapes, title: shapes }]),
    ...(forwardLink === null ? [] : [{ name: "Backward of", value: forwardLink }]),
    ...chain("Module", modules),
    ...chain("Python", frames),
  ];
}

function sameNameRow({ count, median, sum }: SameName): FactRow {
  return {
    name: "Same name",
    value: `${formatCount(count)} on this rank · median ${formatDuration(median)}`,
    title: `${formatDuration(sum)} in all`,
    className: "wrapped",
  };
}

function launchedRow(
  { count, dur, delay, ids }: NonNullable<EventDetail["kernels"]>,
  select: (ids: readonly number[]) => void,
): FactRow {
  const figures =
    `${plural(count, "event")} on the device, ${formatDuration(dur)} in all, ` +
    `median launch delay ${formatDuration(delay)}`;
  const press = (): void => select(ids ?? []);
  const link = <Link text="select" title="Select the events on the device" press={press} />;
  const value = [figures, ids !== null && [" · ", link]];
  return { name: "Launched", value, title: figures, className: "wrapped" };
}

/** Return the row of the source line. Pressing it opens the line in an editor or copies it. */
function sourceRow(source: SourceLine, copy: Copy): FactRow {
  const place = `${source.path}:${source.line}`;
  const press = (): void => {
    if (!openInHost(source)) copy(place, "the source line");
  };
  const value = (
    <>
      <Link
        text={<CutName text={place.split(/[\\/]/).slice(-2).join("/")} />}
        title={`${place}\nOpen it in the editor, or copy it`}
        press={press}
      />
      <span class="hta-note">{source.function}</span>
      <CopyButton copy={copy} text={() => place} what="the source line" />
    </>
  );
  return { name: "Source", value, className: "line" };
}

/** Return a collective's rows: share of waiting, message size, bandwidth. */
function callRows(rank: number, collective: Collective | null): FactRow[] {
  const ownArrival = collective?.ranks.find((member) => member.rank === rank);
  if (collective === null || ownArrival === undefined) return [];
  const { wait, transfer } = ownArrival;
  const waitText = wait > 0 ? `${formatDuration(wait)} waiting` : "no waiting";
  const partsText = `${waitText}, ${formatDuration(transfer)} transfer`;
  const rows: FactRow[] = [{ name: "Parts", value: partsText }];
  const message = messageText(collective);
  if (message !== "") rows.push({ name: "Message", value: message, title: BANDWIDTHS });
  const { group } = collective;
  const ranks = plural(collective.ranks.length, "rank");
  return [...rows, { name: "Group", value: group === "" ? ranks : `${group} · ${ranks}` }];
}

/** Return the rows of arrows. The first row of each direction shows the key that follows it. */
function flowRows(flows: readonly Flow[], goTo: (brief: Brief) => void): FactRow[] {
  const seen = new Set<string>();
  return flows.map((flow): FactRow => {
    const { brief, direction } = flow;
    const isFirst = !seen.has(direction);
    seen.add(direction);
    const value = (
      <>
        <EventLink event={brief} goTo={goTo} />
        <span class="hta-note">{delayText(flow)}</span>
        {isFirst && <Kbd name={direction === "in" ? "[" : "]"} />}
      </>
    );
    return { name: flowLabel(flow), value, className: "line" };
  });
}

function Arguments({ detail, copy }: { detail: EventDetail | null; copy: Copy }) {
  const { args = [], args_error: error = "" } = detail ?? {};
  const lines = (): string => args.map(([key, text]) => `${key}: ${text}`).join("\n");
  return (
    <div class="hta-args">
      <div class="hta-head">
        <h3>Arguments</h3>
        {args.length > 0 && <CopyButton copy={copy} text={lines} what="all arguments" />}
      </div>
      {error && <p class="hta-error-text">{error}</p>}
      {detail !== null && args.length === 0 && !error && <p class="hta-note">None.</p>}
      <div
        class="hta-scroll"
        tabIndex={args.length > 0 ? 0 : undefined}
        role="group"
        aria-label="Arguments"
      >
        <dl class="hta-factlist hta-arglist">
          {args.map(([key, text]) => (
            <div class="hta-fact">
              <dt title={key}>{key}</dt>
              <dd title={text}>
                {text}
                <CopyButton copy={copy} text={() => text} what={key} />
              </dd>
            </div>
          ))}
        </dl>
      </div>
    </div>
  );
}

function Actions({ panels, brief }: EventPanelProps & { brief: Brief }) {
  const { nav, picking } = panels.app;
  const zoom = (): void => nav.toggleZoom(picking.target());
  const count = picking.detail?.same?.count;
  const allOfNameText =
    count === undefined ? "All of this name" : `All ${formatCount(count)} of this name`;
  return (
    <div class="hta-doings">
      <Button text="Zoom to event" keys="F" showKey press={zoom} />
      {count !== 1 && <Button text={allOfNameText} press={() => picking.selectName()} />}
      <Button text="Copy as Python" press={() => panels.copy(eventCode(brief), "Python")} />
      <Button
        text="Export window…"
        keys="X"
        press={({ currentTarget }) => panels.openExport(currentTarget as HTMLElement)}
      />
    </div>
  );
}

const BANDWIDTHS =
  "algorithm bandwidth: bytes divided by the transfer time; bus bandwidth: algorithm bandwidth times the factor of the operation, as in nccl-tests";

function messageText({ size, algbw, busbw }: Collective): string {
  const parts: string[] = [];
  if (size >= 0) parts.push(formatBytes(size));
  if (algbw !== null) parts.push(`${algbw.toPrecision(3)}\u202fGB/s`);
  if (busbw !== null) parts.push(`bus ${busbw.toPrecision(3)}\u202fGB/s`);
  return parts.join(" · ");
}

function delayText({ delay, direction }: Flow): string {
  if (delay < 0) return `overlaps by ${formatDuration(-delay)}`;
  return `${formatDuration(delay)} ${direction === "in" ? "before start" : "after"}`;
}

/** Return a step's number. BytePS counts the steps of each file from 0. */
function stepText(step: number, category: string | null): string {
  const counted = category === "Comm" || category === "byteps-server";
  return counted ? `${step}, counted in the file` : String(step);
}

// A histogram of the durations of events with one name on one rank, with one event marked.

/** Return a duration's position along the bins, from 0 to 1. Bins have equal widths. */
export function positionInBins(edges: readonly number[], value: number): number {
  const bins = edges.length - 1;
  if (bins < 1) return 0;
  const innerBin = edges.slice(1, -1).findIndex((end) => value <= end);
  const bin = innerBin < 0 ? bins - 1 : innerBin;
  const [low, high] = [edges[bin]!, edges[bin + 1]!];
  const within = high > low ? (value - low) / (high - low) : 0.5;
  return (bin + Math.min(Math.max(within, 0), 1)) / bins;
}

/** Compare an event's duration with the durations of all events of the same name. */
export function histogramText(same: SameName, dur: number): string {
  const { min, max, median } = same;
  const events = plural(same.count, "event");
  if (min === max) return `${events}, all ${formatDuration(min)}`;
  const ratio = median > 0 ? dur / median : 1;
  const multiple = `${formatValue(Number(ratio.toPrecision(2)))}× the median`;
  const against = ratio >= 2 ? multiple : formatShareDelta(ratio - 1);
  return `${events}, ${formatRange(min, max)}, median ${formatDuration(median)}; this one ${against}`;
}

function Histogram({ detail: { event, same } }: { detail: EventDetail }) {
  let text = "Not known.";
  if (same?.count === 1) text = `The only event of this name on rank ${event.rank}.`;
  else if (same !== null && same.count > 1) text = histogramText(same, event.dur);
  return (
    <div class="hta-histogram">
      <h3>{`This name on rank ${event.rank}`}</h3>
      <p class="hta-note">{text}</p>
      {same !== null && same.count > 1 && same.counts.length > 1 && (
        <Bars same={same} dur={event.dur} kind={event.kind} words={text} />
      )}
    </div>
  );
}

function Bars(props: { same: SameName; dur: number; kind: Kind; words: string }) {
  const { same, dur, kind, words } = props;
  const { counts, edges } = same;
  const maxCount = Math.max(...counts, 1);
  const position = positionInBins(edges, dur);
  const ownBin = Math.min(Math.floor(position * counts.length), counts.length - 1);
  const edge = (bin: number): string => formatDuration(edges[bin] ?? 0);
  return (
    <div class="hta-chart" role="img" aria-label={`Durations: ${words}`}>
      <span class="hta-chart-top">
        {`tallest bar: ${plural(maxCount, "event")}${same.scale === "log" ? " · logarithmic widths" : ""}`}
      </span>
      <div class="hta-bars">
        {counts.map((count, bin) => (
          <div
            class={`hta-bar${bin === ownBin ? " hta-own" : ""}`}
            data-kind={kind}
            style={{ height: count === 0 ? "0" : `max(2px, ${(count / maxCount) * 100}%)` }}
            title={`${edge(bin)} to ${edge(bin + 1)}: ${plural(count, "event")}`}
          />
        ))}
        <div class="hta-bar-mark" style={{ left: `${position * 100}%` }} />
      </div>
      <div class="hta-chart-axis">
        <span>{formatDuration(edges[0] ?? same.min)}</span>
        <b>{`this one ${formatDuration(dur)}`}</b>
        <span>{formatDuration(edges.at(-1) ?? same.max)}</span>
      </div>
    </div>
  );
}

// A collective on all ranks: waits, last arrival, transfer.

/** In larger groups, only the first and last ranks to arrive are listed. */
const MAX_ROWS = 16;

/** A part of a rank's bar. The style sheet draws it according to its label. */
type CallSegment = readonly [label: "late" | "wait" | "transfer", startNs: number, endNs: number];

interface CollectivePanelProps {
  collective: Collective;
  ownRank: number;
  goTo(rank: number, id: number): void;
}

export function CollectivePanel(props: CollectivePanelProps) {
  const { collective, ownRank } = props;
  const { ranks } = collective;
  const ends = ranks.map(({ arrival, wait, transfer }) => arrival + wait + transfer);
  const longestNs = Math.max(...ends, 1);
  const shown = arrivalRows(ranks, ownRank);
  const waits = waitsText(collective);
  const title = `${collective.name} on ${ranks.length} ranks`;
  return (
    <div class="hta-collective">
      <h3>{title}</h3>
      <p class="hta-note">{waits}</p>
      <div class="hta-calls" role="group" aria-label={`${title}: ${waits}`}>
        {shown.map((member) => (
          <MemberRow key={member.rank} {...props} member={member} longestNs={longestNs} />
        ))}
      </div>
      {ranks.length > shown.length && (
        <p class="hta-note">{`${ranks.length - shown.length} ranks between them not shown`}</p>
      )}
      <div class="hta-call-axis">
        <span>first arrival</span>
        <span>{`end +${formatDuration(longestNs)}`}</span>
      </div>
    </div>
  );
}

function MemberRow(props: CollectivePanelProps & { member: Member; longestNs: number }) {
  const { collective, ownRank, goTo, member, longestNs } = props;
  const { rank, id, arrival, wait, transfer } = member;
  const percent = (ns: number): string => `${(ns / longestNs) * 100}%`;
  const isLast = member === lastRankOf(collective);
  const transferStart = arrival + wait;
  const lateStart = Math.max(0, arrival - collective.late);
  const segments: CallSegment[] = [["transfer", transferStart, transferStart + transfer]];
  if (wait > 0) segments.unshift(["wait", arrival, transferStart]);
  if (isLast) segments.unshift(["late", lateStart, arrival]);
  const waitText = wait > 0 ? formatDuration(wait) : "no wait";
  const press = (): void => goTo(rank, id);
  return (
    <div class={`hta-call${rank === ownRank ? " hta-own" : ""}${isLast ? " hta-late" : ""}`}>
      <Link text={`rank ${rank}`} title="Show this call on this rank" press={press} />
      <div class="hta-call-bar">
        {segments.map(([label, startNs, endNs]) => (
          <div
            class={`hta-call-part hta-${label}`}
            style={{ left: percent(startNs), width: percent(endNs - startNs) }}
          />
        ))}
      </div>
      <span class="hta-call-figure">{isLast ? "last" : waitText}</span>
    </div>
  );
}

/** Return all ranks; for large groups, the first and last to arrive and the event's own rank. */
function arrivalRows(ranks: readonly Member[], ownRank: number): Member[] {
  if (ranks.length <= MAX_ROWS) return [...ranks];
  const byArrival = [...ranks].sort((a, b) => a.arrival - b.arrival);
  const half = MAX_ROWS >> 1;
  const shownMembers = new Set([...byArrival.slice(0, half), ...byArrival.slice(-half)]);
  return ranks.filter((member) => shownMembers.has(member) || member.rank === ownRank);
}
