/**
 * Panels of BytePS's workers from the rows that the page holds, as `formats/byteps/byteps_frames.py` makes
 * them of the analyses. Ranks narrow files of their own kind alone.
 */

import type { SelectionJson } from "../../contract";
import type { PanelFrame } from "../types";
import {
  chosenFiles,
  CONSISTENT_SHARE,
  type File,
  filesOf,
  NO_WORKERS,
  noteOf,
} from "./byteps_files";
import {
  byText,
  Columns,
  eachOf,
  Groups,
  ints,
  ordered,
  overlapping,
  strings,
  type Tables,
  unionLength,
} from "./rows";

// --- gradients --------------------------------------------------------------------------------------

const NO_GRADIENTS = { count: 0, total_ns: 0, busy_ns: 0, queue_ns: 0, tail_ns: 0, critical: 0 };

export function gradients(tables: Tables, selection: SelectionJson): PanelFrame {
  const names = [
    ...["tensor", "job", "worker", "count", "total_ns", "busy_ns", "queue_ns", "tail_ns"],
    ...["critical", "root"],
  ];
  const found = new Columns(names);
  const table = tables.gradients;
  if (table === undefined || table === null) return found.frame({ note: NO_WORKERS });
  const files = chosenFiles(tables, selection, "byteps");
  const within = overlapping(selection);
  const [rank, start, total, busy, queue, tail] = eachOf(
    ["rank", "start_ns", "total_ns", "busy_ns", "queue_ns", "tail_ns"],
    (name) => ints(table, name),
  );
  const tensor = strings(table, "tensor");
  const critical = table.columns.critical!;
  const groups = new Groups(([name, job, worker]) => ({
    tensor: String(name),
    job: String(job),
    worker: Number(worker),
    ...NO_GRADIENTS,
    root: false,
  }));
  for (let row = 0; row < table.rows; row += 1) {
    const file = files.get(rank[row]!);
    if (file === undefined || busy[row]! < 0 || !within(start[row]!, total[row]!)) continue;
    const group = groups.at(tensor[row]!, file.job, file.worker);
    // Of a worker's GPUs the root counts, where it has the tensor: the others' queues hold its work.
    if (group.root && !file.root) continue;
    if (file.root && !group.root) Object.assign(group, NO_GRADIENTS, { root: true });
    group.count += 1;
    group.total_ns += total[row]!;
    group.busy_ns += busy[row]!;
    group.queue_ns += queue[row]!;
    group.tail_ns += tail[row]!;
    group.critical += critical[row] === true ? 1 : 0;
  }
  const slowest = new Map<string, number>();
  for (const one of groups.values()) {
    const mean = one.total_ns / one.count;
    slowest.set(one.tensor, Math.max(slowest.get(one.tensor) ?? 0, mean));
  }
  const sorted = ordered(
    groups.values(),
    (a, b) => slowest.get(b.tensor)! - slowest.get(a.tensor)!,
    (a, b) => byText(a.tensor, b.tensor),
    (a, b) => byText(a.job, b.job),
    (a, b) => a.worker - b.worker,
  );
  for (const one of sorted) found.add(one);
  return found.frame(noteOf(table, found.rows));
}

// --- stages -----------------------------------------------------------------------------------------

interface StageSums {
  file: File;
  stage: number;
  count: number;
  sum: number;
  max: number;
  queue: number;
  spans: [number, number][];
}

export function stages(tables: Tables, selection: SelectionJson): PanelFrame {
  const names = [
    ...["rank", "worker", "local_rank", "stage", "count", "sum_ns", "union_ns", "mean_ns"],
    ...["max_ns", "queue_ns", "root", "waits_for_root", "job"],
  ];
  const found = new Columns(names);
  const table = tables.stages;
  if (table === undefined || table === null) return found.frame({ note: NO_WORKERS });
  const order = table.attrs.stages as string[];
  const files = chosenFiles(tables, selection, "byteps");
  const within = overlapping(selection);
  const low = selection.start_ns ?? -Infinity;
  const high = selection.end_ns ?? Infinity;
  const [rank, stage, start, dur, queue] = eachOf(
    ["rank", "stage", "start_ns", "dur_ns", "queue_ns"],
    (name) => ints(table, name),
  );
  const groups = new Groups<StageSums>(([of, code]) => ({
    file: files.get(Number(of))!,
    stage: Number(code),
    ...{ count: 0, sum: 0, max: 0, queue: 0, spans: [] },
  }));
  for (let row = 0; row < table.rows; row += 1) {
    const [begin, length] = [start[row]!, dur[row]!];
    if (!files.has(rank[row]!) || !within(begin, length)) continue;
    const group = groups.at(rank[row]!, stage[row]!);
    const span: [number, number] = [Math.max(begin, low), Math.min(begin + length, high)];
    group.count += 1;
    group.sum += span[1] - span[0];
    group.max = Math.max(group.max, span[1] - span[0]);
    group.queue += queue[row]!;
    group.spans.push(span);
  }
  const sorted = ordered(
    groups.values(),
    (a, b) => a.file.rank - b.file.rank,
    (a, b) => a.stage - b.stage,
  );
  for (const { file, stage: code, count, sum, max, queue: queued, spans } of sorted) {
    found.add({
      rank: file.rank,
      worker: file.worker,
      local_rank: file.local,
      stage: order[code]!,
      count,
      sum_ns: sum,
      union_ns: unionLength(spans),
      mean_ns: sum / count,
      max_ns: max,
      queue_ns: queued,
      root: file.root,
      waits_for_root: order[code] === "COPYH2D" && !file.root,
      job: file.job === "" ? null : file.job,
    });
  }
  return found.frame(found.rows === 0 ? { note: "no events match" } : {});
}

// --- pulls, and whom they wait for ------------------------------------------------------------------

export interface Pull {
  job: string;
  key: number;
  step: number;
  worker: number;
  start: number;
  dur: number;
}

/** PULLs of the same partition and step of all workers beside each other. */
export function pullGroups(tables: Tables, selection: SelectionJson): Pull[][] {
  const table = tables.stages;
  if (table === undefined || table === null) return [];
  const code = (table.attrs.stages as string[]).indexOf("PULL");
  const files = chosenFiles(tables, selection, "byteps");
  const within = overlapping(selection);
  const [rank, stage, key, step, start, dur] = eachOf(
    ["rank", "stage", "key", "step", "start_ns", "dur_ns"],
    (name) => ints(table, name),
  );
  const groups = new Groups<Pull[]>(() => []);
  const workers = new Map<string, Set<number>>();
  for (let row = 0; row < table.rows; row += 1) {
    const file = files.get(rank[row]!);
    if (file === undefined || stage[row] !== code) continue;
    if (!within(start[row]!, dur[row]!)) continue;
    const of = workers.get(file.job) ?? new Set();
    workers.set(file.job, of.add(file.worker));
    groups.at(file.job, key[row]!, step[row]!).push({
      job: file.job,
      key: key[row]!,
      step: step[row]!,
      worker: file.worker,
      start: start[row]!,
      dur: dur[row]!,
    });
  }
  return groups.values().filter((group) => {
    const count = workers.get(group[0]!.job)!.size;
    const own = new Set(group.map(({ worker }) => worker));
    return count > 1 && group.length === count && own.size === count;
  });
}

export function shortestOf(group: readonly Pull[]): { least: number; alone: boolean } {
  const least = Math.min(...group.map(({ dur }) => dur));
  return { least, alone: group.filter(({ dur }) => dur === least).length === 1 };
}

export function blame(tables: Tables, selection: SelectionJson): PanelFrame {
  const names = ["worker", "blame", "slack_ns", "pulls", "pull_ns", "straggler", "job", "ranks"];
  const found = new Columns(names);
  const sums = new Groups(([job, worker]) => ({
    job: String(job),
    worker: Number(worker),
    ...{ shortest: 0, slack: 0, pulls: 0, sum: 0 },
  }));
  for (const group of pullGroups(tables, selection)) {
    const { least, alone } = shortestOf(group);
    for (const { job, worker, dur } of group) {
      const own = sums.at(job, worker);
      own.pulls += 1;
      own.sum += dur;
      own.slack += dur - least;
      own.shortest += alone && dur === least ? 1 : 0;
    }
  }
  const sorted = ordered(
    sums.values(),
    (a, b) => byText(a.job, b.job),
    (a, b) => a.worker - b.worker,
  );
  const files = [...filesOf(tables).values()];
  for (const { job, worker, shortest, slack, pulls, sum } of sorted) {
    found.add({
      worker,
      blame: shortest / pulls,
      slack_ns: slack,
      pulls,
      pull_ns: sum,
      straggler: shortest / pulls > CONSISTENT_SHARE,
      job: job === "" ? null : job,
      ranks: files
        .filter((file) => file.job === job && file.worker === worker)
        .map(({ rank }) => rank)
        .join(","),
    });
  }
  return found.frame(found.rows === 0 ? { note: "it takes PULLs of two workers or more" } : {});
}
