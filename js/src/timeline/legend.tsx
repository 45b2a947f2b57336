/** The legend: chips that show each kind's share of the visible window and can dim the kind. */

import { type ReadonlySignal, signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import KINDS from "../../../hta_widgets/facts/kinds.json";
import { BOUND_GROUPS, boundStyle } from "../facts/bound_classes";
import { classCss } from "../facts/event_classes";
import { deviceOf } from "../protocol/scene";
import type { Kind, Lateness, Scene, Stats } from "../protocol/source";
import { possibleKinds } from "../stage/svg";
import { Swatch } from "../ui/controls";
import { formatShare } from "../ui/formats";
import { watchBoxes } from "../ui/host";
import { OpenerButton } from "../ui/menu";
import { kindName } from "../ui/text";
import type { TimelineContext } from "./context";
import { toggleMember } from "./rows";
import { waitingShare } from "./text";

const MORE_GAP = 6;

/** Entries for marks drawn over communication. They cannot be toggled. */
const WAIT_STATES = [
  {
    name: "wait",
    words:
      "waiting: communication before the last rank arrives. The share counts the exposed part, " +
      "during which the rank does not compute",
    hasShare: true,
  },
  {
    name: "late",
    words:
      "late: the time from the arrival of the other ranks to the start of a late kernel; red for " +
      "a rank that the others wait for",
    hasShare: false,
  },
] as const;

/** Return the kinds that a job with these tracks can have, device kinds first. */
export function legendKinds(scene: Scene): Kind[] {
  const present = possibleKinds(scene.ranks, scene);
  const { kinds, host_kinds: withoutDevice = [] } = scene;
  return (Object.keys(present) as Kind[]).filter(
    (kind) => (present[kind] || withoutDevice.includes(kind)) && kinds.includes(kind),
  );
}

interface KindShares {
  kinds: Partial<Stats["kinds"]>;
  /** The ranks and window to which the shares refer, such as `of all 8 ranks in view`. */
  of: string;
}

interface WaitShares {
  share: string;
  /** Whether a rank is late. */
  isNamed: boolean;
}

const UNKNOWN_SHARES: KindShares = { kinds: {}, of: "" };

export class Legend {
  readonly isPending = signal(false);
  readonly dimmed = signal<ReadonlySet<Kind>>(new Set());
  readonly shares = signal<KindShares>(UNKNOWN_SHARES);
  /** The part of communication spent waiting; null if there is none. */
  readonly waits = signal<WaitShares | null>(null);

  constructor(readonly ctx: TimelineContext) {}

  /** Set the shares of the kinds in view; null if they are unknown. */
  setStats(stats: Stats | null, subject = ""): void {
    this.shares.value = stats === null ? UNKNOWN_SHARES : { kinds: stats.kinds, of: subject };
  }

  setLateness(
    lateness: Lateness | null,
    stats: Stats | null,
    ranks: readonly number[] | null,
  ): void {
    const hasWaits = lateness?.wait.some((ns) => ns > 0) === true;
    const waiting = waitingShare(lateness, stats, ranks);
    const share = waiting === null ? "" : formatShare(waiting);
    this.waits.value = hasWaits ? { share, isNamed: lateness.late.length > 0 } : null;
  }

  toggle(kind: Kind): void {
    const dimmed = toggleMember(this.dimmed.value, kind);
    this.dimmed.value = dimmed;
    this.ctx.stage.setOverlay({ dimmed });
  }
}

/** Return `12 % of the NPU span of all 8 ranks in view.`, or "" if the share is unknown. */
function shareTitle(share: string, { of }: KindShares, device: string): string {
  return share === "" || of === "" ? "" : ` ${share} of the ${device} span ${of}.`;
}

/** Number of chips that do not fit; "all" if none fits, null if all do. */
type HiddenCount = number | "all" | null;

/** Hide the chips that do not fit. An element that is not displayed keeps its state. */
function hideOverflowing(el: HTMLElement, before: HiddenCount): HiddenCount {
  const [bar, more] = [...el.children] as [HTMLElement, HTMLElement];
  const availableWidth = el.clientWidth;
  if (availableWidth === 0) return before;
  const chips = [...bar.children] as HTMLElement[];
  for (const chip of chips) chip.hidden = false;
  if (bar.scrollWidth <= availableWidth) return null;
  more.hidden = false;
  const end = availableWidth - more.offsetWidth - MORE_GAP;
  // All chips are measured before any is hidden, because hiding a chip moves the following ones.
  const overflowing = chips.filter(
    (chip) => chip.offsetLeft + chip.offsetWidth - bar.offsetLeft > end,
  );
  for (const chip of overflowing) chip.hidden = true;
  return overflowing.length < chips.length ? overflowing.length : "all";
}

/** The legend of event kinds or bounds. Chips that do not fit are moved to a menu. */
export function LegendChips(props: { legend: Legend; narrow: ReadonlySignal<boolean> }) {
  const { legend, narrow } = props;
  const place = useRef<HTMLDivElement>(null);
  const isNarrow = narrow.value;
  const hiddenCount = useSignal<HiddenCount>(null);
  const isByBound = legend.ctx.color.value === "bound";
  const arrange = (): void => {
    if (!isNarrow) hiddenCount.value = hideOverflowing(place.current!, hiddenCount.value);
  };
  useLayoutEffect(arrange);
  useLayoutEffect(() => {
    const aborter = new AbortController();
    watchBoxes([place.current!], arrange, aborter.signal);
    return () => aborter.abort();
  }, [isNarrow]);
  const narrowClass = isNarrow ? "hta-legend-narrow" : "";
  const pendingClass = legend.isPending.value ? "hta-pending" : "";
  const hasAllInMenu = isNarrow || typeof hiddenCount.value !== "number";
  const word = isByBound ? "Limits" : "Kinds";
  const text = hasAllInMenu ? word : `+${hiddenCount.value}`;
  const menuText = hasAllInMenu ? word : `${text} ${word.toLowerCase()}`;
  return (
    <div
      ref={place}
      class={`hta-legend ${narrowClass} ${pendingClass}`}
      role="group"
      aria-label={isByBound ? "Limits of work" : "Kinds: share of the view"}
    >
      <div class="hta-chips">{!isNarrow && <ToolbarChips legend={legend} />}</div>
      <OpenerButton
        text={text}
        name={`${menuText} of ${isByBound ? "work" : "events"}`}
        icon="down"
        class="hta-more"
        hidden={!isNarrow && hiddenCount.value === null}
        content={() => <LegendMenu legend={legend} />}
      />
    </div>
  );
}

function ToolbarChips({ legend }: { legend: Legend }) {
  const { color, scene } = legend.ctx;
  const { value: shares } = legend.shares;
  const { value: waits } = legend.waits;
  const chips = legendKinds(scene).map((kind) => [
    <LegendChip key={kind} legend={legend} kind={kind} shares={shares} />,
    kind === "communication" && waits !== null && (
      <WaitKeys legend={legend} key="waits" waits={waits} shares={shares} />
    ),
  ]);
  return (
    <>
      {color.value === "bound" ? <BoundKeys legend={legend} /> : chips}
      {lacksData(scene) && <NoDataKey />}
    </>
  );
}

function LegendMenu({ legend }: { legend: Legend }) {
  if (legend.ctx.color.value === "bound") {
    return (
      <div class="hta-menu" role="group" aria-label="Limits">
        <BoundKeys legend={legend} isLong />
        <NoDataKey isLong />
      </div>
    );
  }
  const waits = legend.waits.value;
  return (
    <div class="hta-menu" role="group" aria-label="Kinds">
      {legendKinds(legend.ctx.scene).map((kind) => (
        <LegendChip key={kind} legend={legend} kind={kind} shares={legend.shares.value} isLong />
      ))}
      {waits !== null && (
        <WaitKeys legend={legend} waits={waits} shares={legend.shares.value} isLong />
      )}
      <NoDataKey isLong />
    </div>
  );
}

/** The hatch is explained if a rank lacks more than this share of the job's time. */
const MIN_MISSING_SHARE = 0.01;

/** Return whether a rank has visibly less data than the job. The missing part is hatched. */
export function lacksData({ ranks, range: [start, end] }: Scene): boolean {
  const missing = ranks.map(({ range }) => end - start - (range[1] - range[0]));
  return Math.max(...missing) > MIN_MISSING_SHARE * (end - start);
}

function NoDataKey({ isLong = false }: { isLong?: boolean }) {
  const words = "the rank's file has no data here, or the page stores less detail";
  return (
    <span class="hta-chip hta-key-only" title={`no data: ${words}.`}>
      <i class="hta-swatch hta-swatch-none" aria-hidden="true" />
      <span>no data</span>
      {isLong && <span class="hta-share" />}
      {isLong && <span class="hta-note">{words}</span>}
    </span>
  );
}

function BoundKeys({ legend, isLong = false }: { legend: Legend; isLong?: boolean }) {
  const theme = legend.ctx.theme.value;
  return BOUND_GROUPS.map(({ name, words, classes }) => (
    <span
      key={name}
      class="hta-chip hta-key-only hta-bound-key"
      title={`${name}: ${words}. Totals on the right are by kind.`}
    >
      <span class="hta-swatches" aria-hidden="true">
        {classes.map((boundClass) => (
          <i key={boundClass} class="hta-swatch" style={classCss(boundStyle(boundClass, theme))} />
        ))}
      </span>
      <span>{name}</span>
      {isLong && <span class="hta-note">{words}</span>}
    </span>
  ));
}

function LegendChip(props: { legend: Legend; kind: Kind; shares: KindShares; isLong?: boolean }) {
  const { legend, kind, shares, isLong = false } = props;
  const isDimmed = legend.dimmed.value.has(kind);
  const share = shares.kinds[kind];
  const text = share === undefined ? "" : formatShare(share);
  const name = kindName(kind);
  const shareText = shareTitle(text, shares, deviceOf(legend.ctx.scene));
  return (
    <button
      type="button"
      class={`hta-chip${isDimmed ? " hta-off" : ""}`}
      title={`${name}: ${KINDS[kind]}.${shareText} Click to dim.`}
      aria-pressed={!isDimmed}
      onClick={() => legend.toggle(kind)}
    >
      <Swatch kind={kind} />
      <span>{name}</span>
      <span class="hta-share">{text}</span>
      {isLong && <span class="hta-note">{KINDS[kind]}</span>}
    </button>
  );
}

function WaitKeys(props: {
  legend: Legend;
  waits: WaitShares;
  shares: KindShares;
  isLong?: boolean;
}) {
  const { legend, waits, shares, isLong = false } = props;
  const device = deviceOf(legend.ctx.scene);
  return WAIT_STATES.map(({ name, words: text, hasShare }) => (
    <span
      key={name}
      class={`hta-chip hta-key-only hta-wait-key${waits.isNamed ? " hta-named" : ""}`}
      title={`${text}.${hasShare ? shareTitle(waits.share, shares, device) : ""}`}
    >
      <i class={`hta-swatch hta-swatch-${name}`} aria-hidden="true" />
      <span>{text.split(":")[0]}</span>
      {(hasShare || isLong) && <span class="hta-share">{hasShare && waits.share}</span>}
      {isLong && <span class="hta-note">{text.replace(/^[^:]*: /, "")}</span>}
    </span>
  ));
}
