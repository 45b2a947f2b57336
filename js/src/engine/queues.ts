/** Queue lengths: the number of launched operations that wait on each stream of a rank. */

import { gather, indicesWhere } from "../expressions/numbers";
import { countBelow, countUpTo } from "./columns";
import {
  isSelected,
  memo,
  withOpenWindow,
  type RankSelection,
  type DeviceWork,
} from "./panel_rank";
import { timeOutside } from "./spans";

interface QueueFigures {
  stream: number;
  /** Number of changes in the window, and the maximum length after a change. */
  count: number;
  max: number | null;
  mean: number | null;
  /** Time in which the length is known: from the first to the last change. */
  span: number;
  /** Number of selected launches, not limited to the window. */
  launched: number;
}

/** Changes of a stream's queue length over time. At equal times, work enters before work leaves. */
class QueueChanges {
  readonly time: Float64Array;
  private readonly length: Int32Array;
  /** Integral of the length over time, up to each change. */
  private readonly area: Float64Array;
  /** Times between recording windows, in which the length is unknown. */
  private readonly unknown: [start: number, end: number][] = [];

  /** `workIndices`: indices into `work` of the operations on the stream. */
  constructor(
    readonly stream: number,
    work: DeviceWork,
    workIndices: Int32Array,
    marks: readonly number[],
  ) {
    const size = 2 * workIndices.length;
    this.time = new Float64Array(size);
    this.length = new Int32Array(size);
    this.area = new Float64Array(size);
    const enters = gather(work.callStart, workIndices);
    // If clocks are inexact, work may start before its launch call.
    const leaves = gather(work.start, workIndices).map((started, k) =>
      Math.max(started, enters[k]!),
    );
    enters.sort();
    leaves.sort();
    let [entered, left, before, area] = [0, 0, 0, 0];
    for (let change = 0; change < size; change += 1) {
      const isEntry = entered < workIndices.length && enters[entered]! <= leaves[left]!;
      const time = isEntry ? enters[entered]! : leaves[left]!;
      const isUnknown = change > 0 && marks.some((mark) => before < mark && mark <= time);
      if (isUnknown) this.unknown.push([before, time]);
      else area += (entered - left) * (time - before);
      before = time;
      if (isEntry) entered += 1;
      else left += 1;
      this.time[change] = time;
      this.area[change] = area;
      this.length[change] = entered - left;
    }
  }

  figuresWithin(low: number, high: number): QueueFigures {
    const { time, stream } = this;
    const lengths = this.length.subarray(countBelow(time, low), countBelow(time, high));
    const start = Math.max(low, time[0]!);
    const end = Math.min(high, time[time.length - 1]!);
    const span = timeOutside(this.unknown, start, end);
    return {
      stream,
      count: lengths.length,
      max: lengths.length > 0 ? lengths.reduce((a, b) => Math.max(a, b)) : null,
      mean: span > 0 ? (this.areaBefore(end) - this.areaBefore(start)) / span : null,
      span,
      launched: time.length / 2,
    };
  }

  private areaBefore(time: number): number {
    const index = Math.max(countUpTo(this.time, time) - 1, 0);
    const isUnknown = this.unknown.some(([start, end]) => start < time && time < end);
    if (isUnknown) return this.area[index]!;
    return this.area[index]! + this.length[index]! * (time - this.time[index]!);
  }
}

/** Return the queue changes of all streams for selected work with a known launch call. */
function queueChanges(selection: RankSelection): QueueChanges[] {
  return memo("changes", withOpenWindow(selection), (full) => {
    const { row, call, stream } = full.analysis.work;
    const launched = indicesWhere(row.length, (i) => call[i]! >= 0 && isSelected(full, row[i]!));
    const streams = [...new Set(launched.map((i) => stream[i]!))].sort((a, b) => a - b);
    return streams.map((streamNumber) => {
      const streamWork = launched.filter((i) => stream[i] === streamNumber);
      const { marks = [] } = full.analysis.trace.header;
      return new QueueChanges(streamNumber, full.analysis.work, streamWork, marks);
    });
  });
}

/** Return the figures of each stream's queue in the window. Queues are computed over all times. */
export function queueFigures(selection: RankSelection): QueueFigures[] {
  return memo("queues", selection, ({ low, high }) =>
    queueChanges(selection).map((changes) => changes.figuresWithin(low, high)),
  );
}
