/** Frames of BytePS's panels from the tables in the page. */

import { noteFor } from "../facts/notes";
import { getOrMake } from "../protocol/maps";
import type { PanelFrame, SelectionJson } from "../protocol/source";
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
} from "./shared";

// --- requests of servers ----------------------------------------------------------------------------

interface Request {
  file: File;
  key: number;
  push: boolean;
  node: number;
  iteration: number;
  start: number;
  /** −1 if it was never answered. */
  dur: number;
  wait: number;
}

function requestsOf(tables: Tables, selection: SelectionJson): Request[] {
  const table = tables.requests;
  if (table === undefined || table === null) return [];
  const files = chosenFiles(tables, selection, "byteps-server");
  const { start_ns: from, end_ns: to } = selection;
  const within = overlapping(selection);
  const [rank, key, push, node, iteration, start, dur, wait] = eachOf(
    ["rank", "key", "push", "node", "iteration", "start_ns", "dur_ns", "wait_ns"],
    (name) => ints(table, name),
  );
  const found: Request[] = [];
  for (let row = 0; row < table.rows; row += 1) {
    const file = files.get(rank[row]!);
    if (file === undefined) continue;
    const [begin, length] = [start[row]!, dur[row]!];
    // Unanswered requests have no length: those that begin in the window count.
    const here =
      length < 0 ? begin >= (from ?? -Infinity) && begin < (to ?? Infinity) : within(begin, length);
    if (!here) continue;
    found.push({
      file,
      key: key[row]!,
      push: push[row] === 1,
      node: node[row]!,
      iteration: iteration[row]!,
      start: begin,
      dur: length,
      wait: wait[row]!,
    });
  }
  return found;
}

interface Arrival {
  file: File;
  key: number;
  iteration: number;
  node: number;
  start: number;
  lag: number;
  last: boolean;
}

/** Arrivals of pushes, in iterations that every node of the server pushed. */
function arrivalsOf(requests: readonly Request[]): Arrival[] {
  const nodes = new Groups(() => new Set<number>());
  const groups = new Groups<Request[]>(() => []);
  for (const one of requests) {
    if (!one.push) continue;
    nodes.at(one.file.rank).add(one.node);
    groups.at(one.file.rank, one.key, one.iteration).push(one);
  }
  const found: Arrival[] = [];
  for (const group of groups.values()) {
    const { file } = group[0]!;
    const count = nodes.at(file.rank).size;
    if (count < 2 || group.length !== count) continue;
    const first = Math.min(...group.map(({ start }) => start));
    const latest = Math.max(...group.map(({ start }) => start));
    const alone = group.filter(({ start }) => start === latest).length === 1;
    for (const { key, iteration, node, start } of group) {
      const last = alone && start === latest;
      found.push({ file, key, iteration, node, start, lag: start - first, last });
    }
  }
  return found;
}

const node = (number: number): string =>
  number < 8 ? `node ${number}` : `node ${number} (ps rank ${Math.floor((number - 8) / 2)})`;

/** Lag of each worker in each iteration, from the servers' data or else the workers' pulls. */
export function stragglers(tables: Tables, selection: SelectionJson): PanelFrame {
  const names = [
    "job",
    "node",
    "iteration",
    "keys",
    "lag_ns",
    "last",
    "start_ns",
    "end_ns",
    "label",
  ];
  const found = new Columns(names);
  const byServers = tables.requests !== undefined;
  const spans = new Groups<[number, number]>(() => [Infinity, -Infinity]);
  const groups = new Groups(([job, who, iteration]) => ({
    job: String(job),
    node: Number(who),
    iteration: Number(iteration),
    ...{ keys: 0, lag_ns: 0, last: 0 },
  }));
  const add = (
    ...[job, who, iteration, start, lag, last]: [string, number, number, number, number, boolean]
  ): void => {
    const span = spans.at(job, iteration);
    span[0] = Math.min(span[0], start);
    span[1] = Math.max(span[1], start);
    const group = groups.at(job, who, iteration);
    group.keys += 1;
    group.lag_ns += lag;
    group.last += last ? 1 : 0;
  };
  if (byServers) {
    for (const one of arrivalsOf(requestsOf(tables, selection))) {
      add(one.file.job, one.node, one.iteration, one.start, one.lag, one.last);
    }
  } else {
    for (const group of pullGroups(tables, selection)) {
      const { least, alone } = shortestOf(group);
      const longest = Math.max(...group.map(({ dur }) => dur));
      for (const { job, worker, step, start, dur } of group) {
        add(job, worker, step, start, longest - dur, alone && dur === least);
      }
    }
  }
  const sorted = ordered(
    groups.values(),
    (a, b) => byText(a.job, b.job),
    (a, b) => a.node - b.node,
    (a, b) => a.iteration - b.iteration,
  );
  for (const one of sorted) {
    const [start, end] = spans.at(one.job, one.iteration);
    const label = byServers ? node(one.node) : `worker ${one.node}`;
    found.add({ ...one, start_ns: start, end_ns: end + 1, label });
  }
  const none = byServers
    ? "no iteration was pushed by every node"
    : "it takes PULLs of two workers or more";
  return found.frame({
    source: byServers ? "servers" : "workers",
    ...(found.rows === 0 && { note: none }),
  });
}

export function servers(tables: Tables, selection: SelectionJson): PanelFrame {
  const names = [
    ...["server", "requests", "open", "keys", "iterations", "busy_ns", "push_ns", "wait_ns"],
    ...["service_ns", "job", "ranks"],
  ];
  const found = new Columns(names);
  if (tables.requests === undefined || tables.requests === null) {
    return found.frame({ note: NO_SERVERS });
  }
  const requests = requestsOf(tables, selection);
  for (const file of chosenFiles(tables, selection, "byteps-server").values()) {
    const own = requests.filter((one) => one.file.rank === file.rank);
    const closed = own.filter(({ dur }) => dur >= 0);
    const pushes = closed.filter(({ push }) => push);
    const pulls = closed.filter(({ push }) => !push);
    const sum = (of: readonly Request[], value: (one: Request) => number): number =>
      of.reduce((all, one) => all + value(one), 0);
    found.add({
      server: file.server,
      requests: closed.length,
      open: own.length - closed.length,
      keys: new Set(own.map(({ key }) => key)).size,
      iterations: completeIterations(own),
      busy_ns: unionLength(pushes.map(({ start, dur }) => [start, start + dur])),
      push_ns: sum(pushes, ({ dur }) => dur),
      wait_ns: sum(pulls, ({ wait }) => wait),
      service_ns: sum(pulls, ({ dur, wait }) => dur - wait),
      job: file.job === "" ? null : file.job,
      ranks: `${file.rank}`,
    });
  }
  return found.frame();
}

function completeIterations(requests: readonly Request[]): number {
  const pushes = requests.filter(({ push }) => push);
  const nodes = new Set(pushes.map((one) => one.node)).size;
  const groups = new Groups(() => ({ count: 0 }));
  for (const { key, iteration } of pushes) groups.at(key, iteration).count += 1;
  return groups.values().filter(({ count }) => count === nodes).length;
}

export function requestsByKey(tables: Tables, selection: SelectionJson): PanelFrame {
  const names = [
    ...["name", "rank", "server", "tensor", "partition", "requests", "pushes", "push_ns"],
    ...["pull_ns", "wait_ns", "service_ns", "last_node", "last_share", "last_lag_ns"],
  ];
  const found = new Columns(names);
  const table = tables.requests;
  if (table === undefined || table === null) return found.frame({ note: NO_SERVERS });
  const keys = table.attrs.keys as [text: string, tensor: string, partition: number][];
  const requests = requestsOf(tables, selection);
  const groups = new Groups(([rank, key]) => ({
    rank: Number(rank),
    key: Number(key),
    server: 0,
    ...{ requests: 0, pushes: 0, push_ns: 0, pull_ns: 0, wait_ns: 0, service_ns: 0 },
  }));
  for (const { file, key, push, dur, wait } of requests) {
    if (dur < 0) continue;
    const group = groups.at(file.rank, key);
    group.server = file.server;
    group.requests += 1;
    group.wait_ns += wait;
    if (push) {
      group.pushes += 1;
      group.push_ns += dur;
    } else {
      group.pull_ns += dur;
      group.service_ns += dur - wait;
    }
  }
  const last = lastByKey(arrivalsOf(requests));
  const sorted = ordered(
    groups.values(),
    (a, b) => b.wait_ns - a.wait_ns,
    (a, b) => a.rank - b.rank,
    (a, b) => a.key - b.key,
  );
  for (const { key, ...sums } of sorted) {
    const [name, tensor, partition] = keys[key]!;
    const latest = last.get(sums.rank, key);
    found.add({
      ...{ name, tensor, partition, ...sums },
      last_node: latest?.node ?? -1,
      last_share: latest?.share ?? null,
      last_lag_ns: latest?.lag ?? null,
    });
  }
  return found.frame(found.rows === 0 ? { note: "no events match" } : {});
}

interface Last {
  node: number;
  share: number;
  lag: number;
}

/** The node that most often comes last for a key, its share of the iterations, and its mean lag. */
function lastByKey(arrivals: readonly Arrival[]): Groups<Last> {
  const each = new Groups(([rank, key, who]) => ({
    ...{ rank: Number(rank), key: Number(key), node: Number(who) },
    ...{ count: 0, last: 0, lag: 0 },
  }));
  for (const { file, key, node: who, lag, last } of arrivals) {
    const group = each.at(file.rank, key, who);
    group.count += 1;
    group.lag += lag;
    group.last += last ? 1 : 0;
  }
  const found = new Groups<Last>(() => ({ node: -1, share: 0, lag: 0 }));
  const byNode = ordered(each.values(), (a, b) => a.node - b.node);
  for (const { rank, key, node: who, count, last, lag } of byNode) {
    if (last === 0) continue;
    const best = found.at(rank, key);
    if (last / count <= best.share) continue;
    Object.assign(best, { node: who, share: last / count, lag: lag / count });
  }
  return found;
}

// Files of BytePS in the page, and those that a selection includes.

interface File {
  rank: number;
  job: string;
  format: string;
  worker: number;
  local: number;
  server: number;
  root: boolean;
}

function filesOf(tables: Tables): Map<number, File> {
  const table = tables.files!;
  const job = strings(table, "job");
  const format = strings(table, "format");
  const [worker, local, server] = eachOf(["worker", "local_rank", "server"], (name) =>
    ints(table, name),
  );
  return new Map(
    ints(table, "rank").map((rank, at) => [
      rank,
      {
        rank,
        job: job[at]!,
        format: format[at]!,
        worker: worker[at]!,
        local: local[at]!,
        server: server[at]!,
        root: table.columns.root?.[at] === true,
      },
    ]),
  );
}

/** Files of a format that a selection includes. */
function chosenFiles(tables: Tables, selection: SelectionJson, format: string): Map<number, File> {
  const all = [...filesOf(tables)].filter(([, file]) => file.format === format);
  const own = all.filter(([rank]) => selection.ranks?.includes(rank) === true);
  return new Map(own.length > 0 ? own : all);
}

/** A worker that is last in this share, or more, is late by more than chance; see `workers.py`. */
export const CONSISTENT_SHARE = 0.8;
const NO_WORKERS = noteFor("no_byteps_workers");
const NO_SERVERS = noteFor("no_byteps_servers");

/** Note of a table; without one, a note if no rows are left. */
function noteOf(table: PanelFrame, rows: number): Record<string, unknown> {
  if (typeof table.attrs.note === "string") return { note: table.attrs.note };
  return rows === 0 ? { note: "no events match" } : {};
}

// Panels of BytePS's workers from the page's rows, as in `formats/byteps/frames.py`. Ranks narrow
// only the files of their own kind.

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
    // If the worker's root GPU has the tensor, only it counts: other queues contain its work.
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

// --- pulls and their waits --------------------------------------------------------------------------

interface Pull {
  job: string;
  key: number;
  step: number;
  worker: number;
  start: number;
  dur: number;
}

/** Groups of the PULLs of all workers for the same partition and step. */
function pullGroups(tables: Tables, selection: SelectionJson): Pull[][] {
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
    getOrMake(workers, file.job, () => new Set()).add(file.worker);
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

function shortestOf(group: readonly Pull[]): { least: number; alone: boolean } {
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
      straggler: shortest / pulls >= CONSISTENT_SHARE,
      job: job === "" ? null : job,
      ranks: files
        .filter((file) => file.job === job && file.worker === worker)
        .map(({ rank }) => rank)
        .join(","),
    });
  }
  return found.frame(found.rows === 0 ? { note: "it takes PULLs of two workers or more" } : {});
}
