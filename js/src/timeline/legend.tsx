/** Kinds as chips: legend, share of the window in view, and a switch to dim a kind. */

import { type ReadonlySignal, signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import KINDS from "../../../hta_widgets/facts/kinds.json";
import type { Kind, Lateness, Scene, Stats } from "../protocol/source";
import { isMpi } from "../stage/lanes";
import { kindsThere } from "../stage/svg";
import { kindName, Swatch } from "../ui/controls";
import { formatShare } from "../ui/formats";
import { watchBoxes } from "../ui/host";
import { Opener } from "../ui/menu";
import type { Context } from "./context";

const MORE_GAP = 6;

/** Marks drawn over communication; they are not switches. */
const STATES = [
  {
    name: "wait",
    long: "waiting on the stream",
    short: "waiting",
    words:
      "waiting on the stream: the part of communication in which a rank waits for the last one " +
      "to arrive, hidden behind compute or exposed",
    hasShare: true,
  },
  {
    name: "late",
    long: "late",
    short: "late",
    words: "the time in which the others were there and this rank was not",
    hasShare: false,
  },
] as const;

/** Kinds that a job of these tracks can have, device kinds first. */
export function kindsOf(scene: Scene): Kind[] {
  const there = kindsThere(scene.ranks, scene);
  const { kinds, host_kinds: withoutDevice = [] } = scene;
  return (Object.keys(there) as Kind[]).filter(
    (kind) => (there[kind] || withoutDevice.includes(kind)) && kinds.includes(kind),
  );
}

function sumOf(
  times: readonly number[],
  of: readonly number[],
  ranks: readonly number[] | null,
): number {
  return times.reduce(
    (sum, ns, at) => (ranks === null || ranks.includes(of[at]!) ? sum + ns : sum),
    0,
  );
}

interface Shares {
  kinds: Partial<Stats["kinds"]>;
  /** Their ranks and window: `of all 8 ranks in view`. */
  of: string;
}

interface Waits {
  share: string;
  /** Whether a rank is late. */
  isNamed: boolean;
}

const UNKNOWN: Shares = { kinds: {}, of: "" };

export class Legend {
  readonly isPending = signal(false);
  readonly dimmed = signal<ReadonlySet<Kind>>(new Set());
  readonly shares = signal<Shares>(UNKNOWN);
  /** The waiting part of communication; null for none. */
  readonly waits = signal<Waits | null>(null);

  constructor(readonly ctx: Context) {}

  /** Set the shares of the kinds in view; null while they are unknown. */
  setStats(stats: Stats | null, of = ""): void {
    this.shares.value = stats === null ? UNKNOWN : { kinds: stats.kinds, of };
  }

  setLateness(
    lateness: Lateness | null,
    stats: Stats | null,
    ranks: readonly number[] | null,
  ): void {
    const isThere = lateness?.wait.some((ns) => ns > 0) === true;
    const span = stats === null ? 0 : sumOf(stats.span, stats.ranks, ranks);
    const wait = isThere ? sumOf(lateness.wait, lateness.ranks, ranks) : 0;
    const share = span > 0 ? formatShare(wait / span) : "";
    this.waits.value = isThere ? { share, isNamed: lateness.late.length > 0 } : null;
  }

  toggle(kind: Kind): void {
    const dimmed = new Set(this.dimmed.value);
    if (!dimmed.delete(kind)) dimmed.add(kind);
    this.dimmed.value = dimmed;
    this.ctx.stage.setOverlay({ dimmed });
  }
}

/** `12 % of the GPU span of all 8 ranks in view.`, if that is known. */
function about(share: string, { of }: Shares): string {
  return share === "" || of === "" ? "" : ` ${share} of the GPU span ${of}.`;
}

/** Chips with short names if the long ones do not fit; those without room are in a menu only. */
export function Chips({ legend, narrow }: { legend: Legend; narrow: ReadonlySignal<boolean> }) {
  const place = useRef<HTMLDivElement>(null);
  const isNarrow = narrow.value;
  /** Number of kinds without room; null if all entries fit. */
  const left = useSignal<number | null>(null);
  const kinds = kindsOf(legend.ctx.scene);
  const { value: shares } = legend.shares;
  const { value: waits } = legend.waits;
  const arrange = (): void => {
    const el = place.current!;
    const [bar, more] = [...el.children] as [HTMLElement, HTMLElement];
    const room = el.clientWidth;
    if (isNarrow || room === 0) return;
    const chips = [...bar.children] as HTMLElement[];
    for (const chip of chips) chip.hidden = false;
    el.classList.remove("hta-brief");
    el.classList.toggle("hta-brief", bar.scrollWidth > room);
    if (bar.scrollWidth <= room) {
      left.value = null;
      return;
    }
    more.hidden = false;
    const end = room - more.offsetWidth - MORE_GAP;
    // Measured before any is hidden: each hidden one moves those behind it.
    const over = chips.filter((chip) => chip.offsetLeft + chip.offsetWidth - bar.offsetLeft > end);
    for (const chip of over) chip.hidden = true;
    left.value = over.filter((chip) => chip instanceof HTMLButtonElement).length;
  };
  useLayoutEffect(arrange);
  useLayoutEffect(() => {
    const ended = new AbortController();
    watchBoxes([place.current!], arrange, ended.signal);
    return () => ended.abort();
  }, [isNarrow]);
  const look = `${isNarrow ? "hta-legend-narrow" : ""} ${legend.isPending.value ? "hta-pending" : ""}`;
  const isAll = isNarrow || left.value === null || left.value === kinds.length;
  const text = isAll ? "Kinds" : `+${left.value}`;
  return (
    <div
      ref={place}
      class={`hta-legend ${look}`}
      role="group"
      aria-label="Kinds: share of the view"
    >
      <div class="hta-chips">
        {!isNarrow &&
          kinds.map((kind) => [
            <Chip key={kind} legend={legend} kind={kind} shares={shares} />,
            kind === "communication" && waits !== null && (
              <WaitKeys key="waits" scene={legend.ctx.scene} waits={waits} shares={shares} />
            ),
          ])}
      </div>
      <Opener
        text={text}
        name={text === "Kinds" ? "Kinds of events" : `${text} kinds of events`}
        icon="down"
        class="hta-more"
        hidden={!isNarrow && left.value === null}
        content={() => <Menu legend={legend} />}
      />
    </div>
  );
}

function Menu({ legend }: { legend: Legend }) {
  const waits = legend.waits.value;
  return (
    <div class="hta-menu" role="group" aria-label="Kinds">
      {kindsOf(legend.ctx.scene).map((kind) => (
        <Chip key={kind} legend={legend} kind={kind} shares={legend.shares.value} isLong />
      ))}
      {waits !== null && (
        <WaitKeys scene={legend.ctx.scene} waits={waits} shares={legend.shares.value} isLong />
      )}
    </div>
  );
}

function Chip(look: { legend: Legend; kind: Kind; shares: Shares; isLong?: boolean }) {
  const { legend, kind, shares, isLong = false } = look;
  const off = legend.dimmed.value.has(kind);
  const share = shares.kinds[kind];
  const text = share === undefined ? "" : formatShare(share);
  const name = kindName(kind);
  return (
    <button
      type="button"
      class={`hta-chip${off ? " hta-off" : ""}`}
      title={`${name}: ${KINDS[kind]}.${about(text, shares)} Click to dim.`}
      aria-pressed={!off}
      onClick={() => legend.toggle(kind)}
    >
      <Swatch kind={kind} />
      <Name long={name} short={kind === "communication" && !isLong ? "comm" : name} />
      <span class="hta-share">{text}</span>
      {isLong && <span class="hta-note">{KINDS[kind]}</span>}
    </button>
  );
}

function WaitKeys(look: { scene: Scene; waits: Waits; shares: Shares; isLong?: boolean }) {
  const { scene, waits, shares, isLong = false } = look;
  const where = scene.ranks.every(isMpi) ? "in MPI" : "on the stream";
  return STATES.map(({ name, long, short, words, hasShare }) => (
    <span
      key={name}
      class={`hta-chip hta-key-only${waits.isNamed ? " hta-named" : ""}`}
      title={`${placed(words, where)}.${hasShare ? about(waits.share, shares) : ""}`}
    >
      <i class={`hta-swatch hta-swatch-${name}`} aria-hidden="true" />
      <Name long={isLong ? short : placed(long, where)} short={short} />
      {(hasShare || isLong) && <span class="hta-share">{hasShare && waits.share}</span>}
      {isLong && <span class="hta-note">{words.replace(/^[^:]*: /, "")}</span>}
    </span>
  ));
}

function placed(words: string, where: string): string {
  return words.replace("on the stream", where);
}

/** A name, and a shorter form for narrow toolbars. */
function Name({ long, short }: { long: string; short: string }) {
  if (long === short) return <span>{long}</span>;
  return (
    <>
      <span class="hta-if-roomy">{long}</span>
      <span class="hta-if-brief">{short}</span>
    </>
  );
}
