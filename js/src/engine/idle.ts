/** Causes of a device's idle gaps, and launches of kernels. */

import { CAUSES } from "../facts/panels";
import { busyTimes, ofAllTimes, type Part, spanOf, type Work } from "./busy";
import { countBelow, countUpTo, type Pacer, positions } from "./columns";
import type { PanelRank } from "./panel_rank";
import { Cover } from "./spans";

/**
 * The first entries are a thread's activities before it launches; the earlier entry has priority.
 */
const ACTIVITIES = 4;
const [SYNC, LOADING, OPERATOR, PYTHON, NOTHING] = [0, 1, 2, 3, 4];
const [CALL, LATENCY, KERNEL, STREAM, BLOCKED, UNKNOWN] = [5, 6, 7, 8, 9, 10];

/** A gap shorter than this is the device's own latency between two kernels. */
const SHORT_NS = 30_000;

/** Calls in which a host thread waits for its device. */
const WAITS = /synchroni[sz]e|^(cuda|cu|hip|musa)Memcpy(?!.*Async)/i;
/** Calls that make a stream wait for work of another one. */
const STREAM_WAITS = /^(?:(cuda|hip|cu|mu|aclrt)StreamWaitEvent\w*)$/i;
/** Names of data loading; folders of Python files are ignored. */
const DATA_LOADING = /data_?load|DataLoader|data_?iter|next_batch/i;
const FOLDERS = /^.*[/\\](?=[^/\\]+\.py\(\d+\): )/;
const CALL_CATEGORY = /^(?:(.+_)?(runtime|driver))$/i;

interface Idle {
  /** Time by category, and the number of gaps that have any of it. */
  time: Float64Array;
  gaps: Int32Array;
}

export function idle(part: Part): Idle {
  const { rank } = part;
  const gaps =
    part.mask === null ? rank.gaps : rank.once("gaps", ofAllTimes(part), (all) => new Gaps(all));
  return rank.once("idle", part, (one) => withBeyond(one, gaps.within(one)));
}

/**
 * Exports only: add the time before and after all work, which is bounded by work outside the file.
 */
function withBeyond(part: Part, found: Idle): Idle {
  const [low, high] = spanOf(part) ?? [0, 0];
  const { start, end } = busyTimes(ofAllTimes(part));
  const first = Math.min(start, high);
  for (const time of [first - low, high - Math.max(end, low, first)]) {
    if (!(time > 0)) continue;
    found.time[UNKNOWN] = found.time[UNKNOWN]! + time;
    found.gaps[UNKNOWN] = found.gaps[UNKNOWN]! + 1;
  }
  return found;
}

/** All gaps between chosen work of a rank, added up once: any window is a few look-ups. */
export class Gaps {
  private readonly start: Float64Array;
  private readonly end: Float64Array;
  /** The work that ends each gap. */
  private readonly next: Int32Array;
  /** By gap and category: totals of all gaps before it. */
  private readonly time: Float64Array;
  private readonly count: Int32Array;
  private readonly host: HostTime;
  private readonly rank: PanelRank;

  /** Build the gaps of a part whose window is open. */
  constructor(part: Part) {
    this.rank = part.rank;
    this.host = hostTime(part.rank);
    const size = CAUSES.length;
    // Each gap ends with the start of other work.
    const most = part.rank.work.row.length + 1;
    const [starts, ends] = [new Float64Array(most), new Float64Array(most)];
    const next = new Int32Array(most);
    let gaps = 0;
    walk(part, (start, end, work) => {
      starts[gaps] = start;
      ends[gaps] = end;
      next[gaps] = work;
      gaps += 1;
    });
    this.start = starts.slice(0, gaps);
    this.end = ends.slice(0, gaps);
    this.next = next.slice(0, gaps);
    this.time = new Float64Array((gaps + 1) * size);
    this.count = new Int32Array((gaps + 1) * size);
    const soFar: Idle = { time: new Float64Array(size), gaps: new Int32Array(size) };
    for (let gap = 0; gap < gaps; gap += 1) {
      this.split(gap, this.start[gap]!, this.end[gap]!, soFar);
      this.time.set(soFar.time, (gap + 1) * size);
      this.count.set(soFar.gaps, (gap + 1) * size);
    }
  }

  /** Gaps in a window. Causes are derived from the whole gap, even if the window cuts it. */
  within({ low, high }: Part): Idle {
    const size = CAUSES.length;
    const found: Idle = { time: new Float64Array(size), gaps: new Int32Array(size) };
    const first = countUpTo(this.end, low);
    const last = countBelow(this.start, high) - 1;
    if (!(high > low) || last < first) return found;
    const cut = [first, last].filter((gap) => this.start[gap]! < low || this.end[gap]! > high);
    for (const gap of new Set(cut)) {
      this.split(gap, Math.max(this.start[gap]!, low), Math.min(this.end[gap]!, high), found);
    }
    const from = first + (cut.includes(first) ? 1 : 0);
    const to = last + (cut.includes(last) ? 0 : 1);
    for (let k = 0; k < size && to > from; k += 1) {
      found.time[k] = found.time[k]! + this.time[to * size + k]! - this.time[from * size + k]!;
      found.gaps[k] = found.gaps[k]! + this.count[to * size + k]! - this.count[from * size + k]!;
    }
    return found;
  }

  /** Add the part between two instants of a gap. */
  private split(gap: number, start: number, end: number, to: Idle): void {
    const { call, callStart, callEnd } = this.rank.work;
    const next = this.next[gap]!;
    const put = (category: number, time: number): void => {
      if (!(time > 0)) return;
      to.time[category] = to.time[category]! + time;
      to.gaps[category] = to.gaps[category]! + 1;
    };
    if (call[next]! < 0) {
      put(UNKNOWN, end - start);
      return;
    }
    const began = clamped(callStart[next]!, start, end);
    const returned = callEnd[next]!;
    const left = clamped(returned, began, end);
    if (began > start) {
      const spent = this.host.between(call[next]!, start, began);
      spent.forEach((time, activity) => put(activity, time));
      put(NOTHING, began - start - spent.reduce((sum, time) => sum + time, 0));
    }
    put(CALL, left - began);
    if (returned > this.start[gap]!) put(LATENCY, end - left);
    else if (this.end[gap]! - this.start[gap]! < SHORT_NS) put(KERNEL, end - start);
    else put(this.host.isBehindWait(call[next]!) ? STREAM : BLOCKED, end - start);
  }
}

/** Look at all gaps between chosen work one after the other: start, end and the work that ends it. */
function walk(
  { rank, mask }: Part,
  heard: (start: number, end: number, next: number) => void,
): void {
  const { work } = rank;
  const member = (i: number): boolean => mask === null || mask[work.row[i]!] === 1;
  let reached = -Infinity;
  let latest = -Infinity;
  for (let i = 0; i < work.row.length; i += 1) {
    if (!member(i)) continue;
    const [start, end] = [work.start[i]!, work.end[i]!];
    if (end > latest) latest = end;
    if (reached === -Infinity) reached = start;
    // An interval without length covers nothing.
    if (end <= start) continue;
    if (start > reached) heard(reached, start, earliestCalled(rank, i, member));
    if (end > reached) reached = end;
  }
  if (latest > reached) {
    // Only events without length end later than all others.
    let at = work.row.length - 1;
    while (at > 0 && (!member(at) || work.start[at]! > latest)) at -= 1;
    heard(reached, latest, earliestCalled(rank, at, member));
  }
}

/** Among work that starts at the same time, return the work that was launched first. */
function earliestCalled(rank: PanelRank, at: number, member: (i: number) => boolean): number {
  const { start, callStart } = rank.work;
  const time = start[at]!;
  let best = at;
  for (let i = at - 1; i >= 0 && start[i] === time; i -= 1) {
    if (callStart[i]! <= callStart[best]! && member(i)) best = i;
  }
  for (let i = at + 1; i < start.length && start[i] === time; i += 1) {
    if (callStart[i]! < callStart[best]! && member(i)) best = i;
  }
  return best;
}

/** Activities of the threads that launch work. */
class HostTime {
  /** Covers by thread. Each level adds its own activities to the level before; the last has all. */
  private readonly levels = new Map<string, Cover[]>();
  /** Calls that launch the first work of their thread after a stream was made to wait. */
  private readonly behind = new Set<number>();

  constructor(private readonly rank: PanelRank) {
    const { rank: own, work } = rank;
    const { type, start, dur, lane } = own.events;
    const calls = [...new Set(work.call)].filter((call) => call >= 0).sort((a, b) => a - b);
    const callsOf = new Map<string, number[]>();
    const rows = new Map<string, number[][]>();
    for (const call of calls) {
      const thread = this.threadOf(call);
      put(callsOf, thread, call);
      if (!rows.has(thread)) rows.set(thread, fourLists());
    }
    const activities = this.activitiesOfTypes();
    const waits = this.streamWaits();
    const all = fourLists();
    const waitsOf = new Map<string, number[]>();
    const streams = own.streams();
    for (let row = 0; row < type.length; row += 1) {
      const does = activities[type[row]!]!;
      const isWait = waits[type[row]!] === 1;
      if ((does === 0 && !isWait) || streams[row]! >= 0) continue;
      const thread = own.trackAt(lane[row]!)?.key ?? "";
      const lists = rows.get(thread);
      if (lists === undefined) continue;
      if (isWait) put(waitsOf, thread, row);
      if (!(dur[row]! > 0)) continue;
      for (let activity = 0; activity < ACTIVITIES; activity += 1) {
        if (((does >> activity) & 1) === 0) continue;
        lists[activity]!.push(row);
        all[activity]!.push(row);
      }
    }
    const covered = (some: number[]): Cover =>
      Cover.of(
        Float64Array.from(some, (row) => start[row]!),
        Float64Array.from(some, (row) => start[row]! + dur[row]!),
      );
    const shared = all.map(covered);
    for (const [thread, lists] of rows) {
      const levels: Cover[] = [];
      for (const cover of [...lists.map(covered), ...shared]) {
        levels.push(levels.length === 0 ? cover : levels.at(-1)!.with(cover));
      }
      this.levels.set(thread, levels);
    }
    for (const [thread, some] of waitsOf) {
      const own = callsOf.get(thread)!;
      const starts = Float64Array.from(own, (call) => start[call]!);
      for (const row of some) {
        const next = own[countBelow(starts, start[row]!)];
        if (next !== undefined) this.behind.add(next);
      }
    }
  }

  private threadOf(call: number): string {
    const { rank } = this.rank;
    return rank.trackAt(rank.events.lane[call]!)?.key ?? "";
  }

  /** Bit mask for each type of events: one bit per activity. */
  private activitiesOfTypes(): Uint8Array {
    const { rank, names } = this.rank;
    return Uint8Array.from(rank.header.types, ([nameCode, categoryCode, kind]) => {
      const [name, category] = [names.full(nameCode), names.category(categoryCode)];
      const isCpu = names.kind(kind) === "cpu";
      const isPython = category === "python_function";
      return (
        (CALL_CATEGORY.test(category) && WAITS.test(name) ? 1 << SYNC : 0) |
        (DATA_LOADING.test(name.replace(FOLDERS, "")) ? 1 << LOADING : 0) |
        (isCpu ? 1 << (isPython ? PYTHON : OPERATOR) : 0)
      );
    });
  }

  private streamWaits(): Uint8Array {
    const { rank, names } = this.rank;
    return Uint8Array.from(rank.header.types, ([name]) =>
      STREAM_WAITS.test(names.full(name)) ? 1 : 0,
    );
  }

  /** Time that the thread of a call spends in each activity between two instants. */
  between(call: number, start: number, end: number): number[] {
    const spent = new Array<number>(ACTIVITIES).fill(0);
    let below = 0;
    this.levels.get(this.threadOf(call))?.forEach((cover, level) => {
      const reached = cover.within(start, end);
      spent[level % ACTIVITIES]! += reached - below;
      below = reached;
    });
    return spent;
  }

  isBehindWait(call: number): boolean {
    return this.behind.has(call);
  }
}

function fourLists(): number[][] {
  return Array.from({ length: ACTIVITIES }, () => []);
}

function put(lists: Map<string, number[]>, key: string, value: number): void {
  const known = lists.get(key);
  if (known === undefined) lists.set(key, [value]);
  else known.push(value);
}

const KNOWN = new WeakMap<PanelRank, HostTime>();

function hostTime(rank: PanelRank): HostTime {
  let found = KNOWN.get(rank);
  if (found === undefined) {
    found = new HostTime(rank);
    KNOWN.set(rank, found);
  }
  return found;
}

/** Clip as numpy does: the upper edge wins. */
function clamped(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}

// Number of launched operations that wait on each stream of a rank: every change of every queue.

/** Figures of one stream's queue. */
interface Queue {
  stream: number;
  /** Changes within the window, and the longest after one of them. */
  count: number;
  max: number | null;
  mean: number | null;
  span: number;
}

interface Queues {
  queues: Queue[];
  /** Work that was launched. */
  launched: number;
}

/** Changes of one stream by time; at the same instant, work enters before other work leaves. */
class Changes {
  readonly time: Float64Array;
  /** Row of the work behind each change. */
  private readonly row: Int32Array;
  /** 1 if work enters the queue, -1 if it leaves. */
  private readonly step: Int8Array;
  /** After each change. */
  private readonly length: Int32Array;
  /** Length times time before each change. */
  private readonly area: Float64Array;

  /** `own`: places of the stream's work. */
  constructor(
    readonly stream: number,
    work: Work,
    own: Int32Array,
  ) {
    const size = 2 * own.length;
    this.time = new Float64Array(size);
    this.row = new Int32Array(size);
    this.step = new Int8Array(size);
    this.length = new Int32Array(size);
    this.area = new Float64Array(size);
    const enters = new Float64Array(own.length);
    const leaves = new Float64Array(own.length);
    for (let k = 0; k < own.length; k += 1) {
      const [called, started] = [work.callStart[own[k]!]!, work.start[own[k]!]!];
      enters[k] = called;
      leaves[k] = called > started ? called : started;
    }
    const [entering, leaving] = [orderOf(enters), orderOf(leaves)];
    let [a, b, length, before, area] = [0, 0, 0, 0, 0];
    for (let at = 0; at < size; at += 1) {
      const k = a < own.length ? entering[a]! : -1;
      const isEntry = k >= 0 && enters[k]! <= leaves[leaving[b]!]!;
      const of = isEntry ? k : leaving[b]!;
      const time = isEntry ? enters[of]! : leaves[of]!;
      if (at > 0) area += length * (time - before);
      before = time;
      length += isEntry ? 1 : -1;
      this.time[at] = time;
      this.row[at] = work.row[own[of]!]!;
      this.step[at] = isEntry ? 1 : -1;
      this.area[at] = area;
      this.length[at] = length;
      if (isEntry) a += 1;
      else b += 1;
    }
  }

  get launched(): number {
    return this.time.length / 2;
  }

  /** Figures of all its work. */
  within(low: number, high: number): Queue {
    const { time, length, stream } = this;
    const first = countBelow(time, low);
    const last = Math.max(countBelow(time, high), first);
    let max = -Infinity;
    for (let at = first; at < last; at += 1) if (length[at]! > max) max = length[at]!;
    const from = Math.max(low, time[0]!);
    const to = Math.min(high, time[time.length - 1]!);
    const span = Math.max(to - from, 0);
    return {
      stream,
      count: last - first,
      max: last > first ? max : null,
      mean: span > 0 ? (this.areaBefore(to) - this.areaBefore(from)) / span : null,
      span,
    };
  }

  private areaBefore(time: number): number {
    const at = Math.max(countUpTo(this.time, time) - 1, 0);
    return this.area[at]! + this.length[at]! * (time - this.time[at]!);
  }

  /** Figures of the chosen work only; null if there is none. */
  ofChosen(mask: Uint8Array, low: number, high: number): { queue: Queue; launched: number } | null {
    const { time, row, step, stream } = this;
    let [count, max, area, span, changes, length, since] = [0, -Infinity, 0, 0, 0, 0, 0];
    for (let at = 0; at < time.length; at += 1) {
      if (mask[row[at]!] === 0) continue;
      const now = time[at]!;
      if (changes > 0) {
        const held = (now < high ? now : high) - (since > low ? since : low);
        if (held > 0) {
          area += length * held;
          span += held;
        }
      }
      changes += 1;
      length += step[at]!;
      since = now;
      if (now >= low && now < high) {
        count += 1;
        if (length > max) max = length;
      }
    }
    if (changes === 0) return null;
    const mean = span > 0 ? area / span : null;
    const queue = { stream, count, max: count > 0 ? max : null, mean, span };
    return { queue, launched: changes / 2 };
  }
}

export class Launched {
  private constructor(private readonly streams: readonly Changes[]) {}

  static async of(work: Work, pacer: Pacer): Promise<Launched> {
    const all = new Set<number>();
    for (let i = 0; i < work.row.length; i += 1) if (work.call[i]! >= 0) all.add(work.stream[i]!);
    const made: Changes[] = [];
    for (const stream of [...all].sort((a, b) => a - b)) {
      await pacer.rest();
      const isOwn = (i: number): boolean => work.stream[i] === stream && work.call[i]! >= 0;
      made.push(new Changes(stream, work, positions(work.row.length, isOwn)));
    }
    return new Launched(made);
  }

  /** Figures of all streams in the window, of queues at all times. */
  within({ mask, low, high }: Part): Queues {
    if (mask === null) {
      return {
        queues: this.streams.map((one) => one.within(low, high)),
        launched: this.streams.reduce((sum, { launched }) => sum + launched, 0),
      };
    }
    const found = this.streams.flatMap((one) => one.ofChosen(mask, low, high) ?? []);
    return {
      queues: found.map(({ queue }) => queue),
      launched: found.reduce((sum, { launched }) => sum + launched, 0),
    };
  }
}

/** Places by value; they nearly always are in order. */
function orderOf(values: Float64Array): Int32Array {
  const order = new Int32Array(values.length);
  let isSorted = true;
  for (let k = 0; k < values.length; k += 1) {
    order[k] = k;
    if (k > 0 && values[k]! < values[k - 1]!) isSorted = false;
  }
  return isSorted ? order : order.sort((a, b) => values[a]! - values[b]! || a - b);
}
