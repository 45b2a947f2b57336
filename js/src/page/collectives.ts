/** The matched collectives of the page, and the lanes of waits and late arrivals made of them. */

import { type Blocks, readBlock } from "./bytes";
import type { SliceOut } from "./cells";
import { Columns } from "./columns";
import type { CollectivesHeader, OverlayHeader } from "./document";
import { Lane } from "./lane";
import { delaysOf, type Part, type Pieces, waitsOf, waitsWithoutTransfers } from "./lateness";
import type { Names } from "./names";
import { COMMUNICATION } from "./rank";
import { type Arrivals, Ribbon } from "./ribbon";
import { countUpTo } from "./sorted";

/** The block that holds the entries. */
const BLOCK = "collectives";
const TRIMMED = 1;

/** A lane of parts of events, and what travels of each. */
export interface OverlayLane {
  index: Lane;
  slice(at: number): SliceOut;
}

/** Columns of one entry per event, of one rank or of all. */
interface Entries extends Part, Arrivals {
  /** What the transfer is longer than the event without its wait; 0 unless clocks disagree. */
  added: Float64Array;
  size: Float64Array;
  track: Int32Array;
  name: Int32Array;
}

export class Collectives {
  private readonly all: Entries;
  private readonly firsts: number[];
  private readonly calls: { name: Int32Array; group: Int32Array; last: Int32Array };
  private readonly busFactor: Float64Array;
  private readonly lanes = new Map<string, OverlayLane>();
  /** Positions of each collective's entries, by rank. */
  private members: number[][] | null = null;
  private arrivals: Ribbon | null = null;

  constructor(
    private readonly header: CollectivesHeader,
    columns: Columns,
    private readonly ranks: readonly number[],
    private readonly names: Names,
  ) {
    this.all = {
      call: columns.i32("call"),
      id: columns.i32("id"),
      start: columns.f64("start"),
      dur: columns.f64("dur"),
      wait: columns.f64("wait"),
      added: columns.f64("transfer_added"),
      clock: columns.f64("clock"),
      late: columns.f64("late"),
      imposed: columns.f64("imposed"),
      last_alone: new Int32Array(0),
      size: columns.f64("size"),
      track: columns.i32("track"),
      name: columns.i32("name"),
      named: columns.i32("call_name_added"),
    };
    this.calls = {
      name: columns.i32("call_name"),
      group: columns.i32("call_group"),
      last: columns.i32("call_last_rank"),
    };
    const { call, named } = this.all;
    for (let i = 0; i < named.length; i += 1) named[i]! += this.calls.name[call[i]!]!;
    this.all.last_alone = call.map((of) => this.calls.last[of]!);
    this.busFactor = columns.floats("call_bus_factor");
    this.firsts = [0];
    for (const count of header.counts ?? ranks.map(() => 0)) {
      this.firsts.push(this.firsts.at(-1)! + count);
    }
  }

  static async read(
    header: CollectivesHeader,
    blocks: Blocks,
    ranks: readonly number[],
    names: Names,
  ): Promise<Collectives> {
    const any = Object.keys(header.columns).length > 0;
    const bytes = any ? await readBlock(blocks, BLOCK) : new Uint8Array(0);
    return new Collectives(header, new Columns(bytes, header.columns), ranks, names);
  }

  get note(): string {
    return this.header.note;
  }

  /** The ranks that the others wait for, in the whole job. */
  get late(): readonly number[] {
    return this.header.late ?? [];
  }

  get any(): boolean {
    return this.all.id.length > 0;
  }

  /** One rank's entries. */
  part(rank: number): Entries {
    const at = this.ranks.indexOf(rank);
    const [from, to] = [this.firsts[at] ?? 0, this.firsts[at + 1] ?? 0];
    const cut = Object.entries(this.all).map(([name, values]) => [
      name,
      (values as Float64Array).subarray(from, to),
    ]);
    return Object.fromEntries(cut) as Entries;
  }

  lane(rank: number, overlay: OverlayHeader): OverlayLane {
    const key = `${rank} ${overlay.role} ${overlay.track}`;
    let lane = this.lanes.get(key);
    if (lane === undefined) {
      lane = this.made(this.part(rank), overlay);
      this.lanes.set(key, lane);
    }
    return lane;
  }

  private made(part: Entries, { role, track }: OverlayHeader): OverlayLane {
    const { start, dur, entry } =
      track >= 0
        ? onTrack(role === "late" ? delaysOf(part) : waitsOf(part), part.track, track)
        : role === "late"
          ? delaysOf(part)
          : waitsWithoutTransfers(part);
    const index = new Lane({
      starts: start,
      durs: dur,
      kinds: new Uint8Array(start.length).fill(COMMUNICATION),
      rows: Int32Array.from(start, (_, row) => row),
    });
    const slice = (at: number): SliceOut => {
      const row = index.rows[at]!;
      return {
        start: start[row]!,
        dur: dur[row]!,
        id: row,
        name: this.names.key(part.name[entry[row]!]!),
        kind: COMMUNICATION,
        flags: index.overlapped(at) ? TRIMMED : 0,
      };
    };
    return { index, slice };
  }

  /** When each rank comes to each collective. */
  get ribbon(): Ribbon {
    this.arrivals ??= new Ribbon(
      this.ranks.map((rank) => ({ rank, ...this.part(rank) })),
      this.header.names ?? [],
    );
    return this.arrivals;
  }

  /** Answer `collective`: the same call on all ranks; null for what was not matched. */
  collective(rank: number, id: number): Record<string, unknown> | null {
    const { all, calls } = this;
    const place = this.ranks.indexOf(rank);
    const own = all.id.subarray(0, this.firsts[place + 1]).indexOf(id, this.firsts[place]);
    if (own < 0) return null;
    const call = all.call[own]!;
    const members = this.membersOf(call);
    const arrivals = members.map((at) => all.start[at]! + all.clock[at]!);
    const first = Math.min(...arrivals);
    const algbw = this.bandwidth(own);
    const factor = this.busFactor[call]!;
    return {
      number: call + 1,
      of: calls.name.length,
      name: this.header.names![calls.name[call]!]!,
      group: this.header.groups![calls.group[call]!]!,
      size: all.size[members[0]!]!,
      algbw,
      busbw: algbw === null || Number.isNaN(factor) ? null : algbw * factor,
      last_rank: calls.last[call]!,
      late: Math.max(...members.map((at) => all.late[at]!)),
      ranks: members.map((at, i) => ({
        rank: this.rankAt(at),
        id: all.id[at]!,
        arrival: arrivals[i]! - first,
        wait: all.wait[at]!,
        transfer: this.transfer(at),
      })),
    };
  }

  private transfer(at: number): number {
    const { dur, wait, added } = this.all;
    return dur[at]! - wait[at]! + added[at]!;
  }

  /** Bytes per ns, which are 10^9 bytes per second. */
  private bandwidth(at: number): number | null {
    const [size, transfer] = [this.all.size[at]!, this.transfer(at)];
    return size > 0 && transfer > 0 ? size / transfer : null;
  }

  private membersOf(call: number): number[] {
    if (this.members === null) {
      this.members = Array.from(this.calls.name, () => []);
      this.all.call.forEach((of, at) => this.members![of]!.push(at));
    }
    return this.members[call]!;
  }

  private rankAt(entry: number): number {
    return this.ranks[countUpTo(this.firsts, entry) - 1]!;
  }
}

function onTrack({ start, dur, entry }: Pieces, trackOf: Int32Array, track: number): Pieces {
  const ours = (i: number): boolean => trackOf[entry[i]!] === track;
  return {
    start: start.filter((_, i) => ours(i)),
    dur: dur.filter((_, i) => ours(i)),
    entry: entry.filter((_, i) => ours(i)),
  };
}
