/** All of a rank's device time as unions that are summed up once: any window is two look-ups. */

import type { Pacer } from "../pacer";
import { picked, positions } from "../sorted";
import { Cover } from "../spans";
import type { BusyTimes } from "./busy_times";
import { Counted } from "./counted";
import { type Part, reachOf } from "./part";
import { BUSY, type Work } from "./work";

const SETS = 1 << BUSY;

export class BusyIndex {
  private constructor(
    private readonly all: Counted,
    private readonly ofKind: readonly Counted[],
    /** By set of kinds. */
    readonly covers: readonly Cover[],
  ) {}

  static async of({ start, end, reach, kind }: Work, pacer: Pacer): Promise<BusyIndex> {
    const ofKind: Counted[] = [];
    for (let one = 0; one < BUSY; one += 1) {
      const at = positions(kind.length, (i) => kind[i] === one);
      const ends = picked(end, at);
      ofKind.push(new Counted(picked(start, at), ends, reachOf(ends)));
      await pacer.rest();
    }
    const covers: Cover[] = [];
    for (let set = 0; set < SETS; set += 1) {
      const at = positions(
        kind.length,
        (i) => ((set >> kind[i]!) & 1) === 1 && end[i]! > start[i]!,
      );
      covers.push(Cover.of(picked(start, at), picked(end, at)));
      await pacer.rest();
    }
    return new BusyIndex(new Counted(start, end, reach), ofKind, covers);
  }

  within(part: Part): BusyTimes {
    const [start, end] = this.all.extent(part);
    const counts = this.ofKind.map((one) => one.within(part));
    return {
      counts: counts as [number, number, number],
      start,
      end,
      unions: Float64Array.from(this.covers, (cover) => cover.within(part.low, part.high)),
    };
  }
}
