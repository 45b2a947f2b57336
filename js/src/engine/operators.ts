/** The operators of a rank: nesting, launched kernels, totals per name. */

import { gather } from "../expressions/numbers";
import { getOrMake } from "../protocol/maps";
import { COMMUNICATION, MEMORY } from "./rank";
import {
  candidateRange,
  forEachInWindow,
  isSelected,
  memo,
  withOpenWindow,
  type RankSelection,
  latestEnds,
  type SortedIntervals,
} from "./panel_rank";

/** The operators of a rank, sorted by start. */
interface OperatorTree extends SortedIntervals {
  readonly row: Int32Array;
  /** Index of the enclosing operator; -1 if there is none. */
  readonly parent: Int32Array;
  /** Index into `names`. */
  readonly name: Int32Array;
  /** Positions in the job's names. */
  readonly names: Int32Array;
  /** For each piece of device work, the innermost operator around its launch call; -1 if none. */
  readonly ofWork: Int32Array;
  /** For each operator, the time covered by its children. */
  readonly covered: Float64Array;
}

export function operatorTree({ analysis: { fullSelection } }: RankSelection): OperatorTree {
  return memo("all operators", fullSelection, ({ analysis: { trace, work } }) => {
    const { type, start: eventStart, dur } = trace.events;
    const { row, parent, ofWork } = trace.operators();
    const indexOfName = new Map<number, number>();
    const start = gather(eventStart, row);
    const end = gather(dur, row).map((time, index) => start[index]! + time);
    return {
      row,
      start,
      end,
      latestEnd: latestEnds(end),
      parent,
      name: row.map((operatorRow) => {
        const [name] = trace.header.types[type[operatorRow]!]!;
        return getOrMake(indexOfName, name, () => indexOfName.size);
      }),
      names: Int32Array.from(indexOfName.keys()),
      ofWork: gather(ofWork, work.row),
      covered: coveredByChildren(start, end, parent),
    };
  });
}

function coveredByChildren(
  start: Float64Array,
  end: Float64Array,
  parent: Int32Array,
): Float64Array {
  const covered = new Float64Array(parent.length);
  // Latest end among the children seen so far.
  const reached = new Float64Array(parent.length).fill(-Infinity);
  parent.forEach((above, index) => {
    if (above < 0) return;
    const from = Math.max(start[index]!, reached[above]!);
    const until = Math.min(end[index]!, end[above]!);
    if (until > from) covered[above]! += until - from;
    reached[above] = Math.max(reached[above]!, until);
  });
  return covered;
}

/** Call paths (names from the outermost operator down to an operator), and which are selected. */
interface CallPaths {
  pathOfOperator: Int32Array;
  /** Index of the path without its last operator, which is always lower; -1 if there is none. */
  parent: number[];
  /** Name of the last operator. */
  name: number[];
  isSelected: boolean[];
  /** Whether the last operator is selected, and no selected operator above it has the same name. */
  isOutermost: boolean[];
}

/** Return the call paths of all operators of a rank; null if no operator is selected. */
export function callPaths(selection: RankSelection): CallPaths | null {
  return memo("paths", withOpenWindow(selection), (full) => {
    const { row, parent, name, names } = operatorTree(full);
    if (!row.some((operatorRow) => isSelected(full, operatorRow))) return null;
    const pathOfOperator = new Int32Array(row.length);
    const paths: CallPaths = {
      pathOfOperator,
      parent: [],
      name: [],
      isSelected: [],
      isOutermost: [],
    };
    const pathOfKey = new Map<number, number>();
    for (let index = 0; index < pathOfOperator.length; index += 1) {
      const above = parent[index]! < 0 ? -1 : pathOfOperator[parent[index]!]!;
      const selected = isSelected(full, row[index]!);
      const key = 2 * ((above + 1) * names.length + name[index]!) + Number(selected);
      pathOfOperator[index] = getOrMake(pathOfKey, key, () => {
        paths.isOutermost.push(selected && !hasSelectedAbove(paths, above, name[index]!));
        paths.name.push(name[index]!);
        paths.isSelected.push(selected);
        return paths.parent.push(above) - 1;
      });
    }
    return paths;
  });
}

/** Return whether this path, or one above it, ends with a selected operator of this name. */
function hasSelectedAbove(paths: CallPaths, first: number, name: number): boolean {
  for (let path = first; path >= 0; path = paths.parent[path]!) {
    if (paths.isSelected[path] && paths.name[path] === name) return true;
  }
  return false;
}

// The host and device cost of each operator name on a rank.

/** By position in `names`. */
interface OperatorSums {
  /** Number of operators that overlap the window. */
  count: Float64Array;
  cpuTotal: Float64Array;
  cpuSelf: Float64Array;
  deviceTotal: Float64Array;
  deviceSelf: Float64Array;
  /** The parts of `deviceTotal` that are communication and copies. */
  communication: Float64Array;
  memory: Float64Array;
  /** Number of pieces of device work in the window, and how many have a known launch call. */
  work: number;
  linked: number;
  /** Time of the device work, and of the part not launched by an operator. */
  workTime: number;
  outsideTime: number;
}

export function operatorSums(selection: RankSelection): OperatorSums {
  return memo("operators", selection, (windowed) => {
    const sums = emptySums(operatorTree(windowed).names.length);
    const paths = callPaths(windowed);
    if (paths !== null) addHostTimes(windowed, paths, sums);
    addDeviceTimes(windowed, paths, sums);
    return sums;
  });
}

function emptySums(size: number): OperatorSums {
  return {
    count: new Float64Array(size),
    cpuTotal: new Float64Array(size),
    cpuSelf: new Float64Array(size),
    deviceTotal: new Float64Array(size),
    deviceSelf: new Float64Array(size),
    communication: new Float64Array(size),
    memory: new Float64Array(size),
    work: 0,
    linked: 0,
    workTime: 0,
    outsideTime: 0,
  };
}

function addHostTimes(selection: RankSelection, paths: CallPaths, sums: OperatorSums): void {
  const tree = operatorTree(selection);
  const covered = childCoverWithin(tree, selection);
  forEachInWindow(tree, selection, (index, start, end) => {
    const path = paths.pathOfOperator[index]!;
    if (!paths.isSelected[path]) return;
    const name = tree.name[index]!;
    sums.count[name]! += 1;
    sums.cpuSelf[name]! += end - start - covered[index]!;
    if (paths.isOutermost[path]) sums.cpuTotal[name]! += end - start;
  });
}

/** Return how long the children of each operator run within the window. */
function childCoverWithin(tree: OperatorTree, selection: RankSelection): Float64Array {
  const { low, high } = selection;
  const { start, end, parent } = tree;
  const [first, last] = candidateRange(tree, selection);
  const isInside = (index: number): boolean => start[index]! >= low && end[index]! <= high;
  // Operators that cross an edge of the window, and the latest end of their children so far.
  const lastEnds = new Map<number, number>();
  for (let index = first; index < last; index += 1) {
    if (!isInside(index)) lastEnds.set(index, low);
  }
  if (lastEnds.size === 0) return tree.covered;
  const covered = tree.covered.slice(0, last);
  for (const index of lastEnds.keys()) covered[index] = 0;
  for (let index = first; index < last; index += 1) {
    const above = parent[index]!;
    if (above < first || isInside(above)) continue;
    const from = Math.max(start[index]!, lastEnds.get(above)!);
    const until = Math.min(end[index]!, end[above]!, high);
    if (until <= from) continue;
    covered[above]! += until - from;
    lastEnds.set(above, until);
  }
  return covered;
}

/** Add the device work of selected operators, even if the work itself is not selected. */
function addDeviceTimes(
  selection: RankSelection,
  paths: CallPaths | null,
  sums: OperatorSums,
): void {
  const { work } = selection.analysis;
  const { ofWork } = operatorTree(selection);
  const pathCount = paths?.name.length ?? 0;
  // Keyed by path; excludes nested paths.
  const all = new Float64Array(pathCount);
  const communication = new Float64Array(pathCount);
  const memory = new Float64Array(pathCount);
  forEachInWindow(work, selection, (index, start, end) => {
    if (work.stream[index]! < 0) return;
    const [operator, time] = [ofWork[index]!, end - start];
    sums.work += 1;
    if (work.call[index]! >= 0) sums.linked += 1;
    sums.workTime += time;
    if (operator < 0) sums.outsideTime += time;
    if (operator < 0 || paths === null) return;
    const path = paths.pathOfOperator[operator]!;
    all[path]! += time;
    if (work.kind[index] === COMMUNICATION) communication[path]! += time;
    if (work.kind[index] === MEMORY) memory[path]! += time;
  });
  if (paths === null) return;
  paths.name.forEach((name, path) => {
    if (paths.isSelected[path]) sums.deviceSelf[name]! += all[path]!;
  });
  addPathTimes(paths, all, sums.deviceTotal);
  addPathTimes(paths, communication, sums.communication);
  addPathTimes(paths, memory, sums.memory);
}

/**
 * Add the time of each path to its last operator and to the operators above it. Modifies `time`:
 * afterwards, a path's time includes nested paths.
 */
function addPathTimes(
  { name: names, parent, isOutermost }: CallPaths,
  time: Float64Array,
  timeOfName: Float64Array,
): void {
  // Paths have higher numbers than their parents, so each time is complete when it is passed up.
  for (let path = names.length - 1; path >= 0; path -= 1) {
    const [name, above] = [names[path]!, parent[path]!];
    if (isOutermost[path]) timeOfName[name]! += time[path]!;
    if (above >= 0) time[above]! += time[path]!;
  }
}
