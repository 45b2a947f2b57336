/**
 * Frames of BytePS's panels from the tables in the page, as in `formats/byteps/frames.py`. Ranks
 * narrow only the files of their own kind.
 */

import { columnsOf, frameOf } from "../engine/frames";
import { byCodePoints } from "../engine/panel_names";
import { sum } from "../expressions/numbers";
import { noteFor } from "../facts/notes";
import type { PanelFrame, SelectionJson } from "../protocol/source";
import {
  fieldsOf,
  grouped,
  noteOf,
  overlapping,
  rowsOf,
  sumOf,
  type Tables,
  unionLength,
} from "./shared";

/** A worker that is last in this share, or more, is late by more than chance; see `workers.py`. */
export const CONSISTENT_SHARE = 0.8;
const NO_WORKERS = noteFor("no_byteps_workers");
const NO_SERVERS = noteFor("no_byteps_servers");

interface File {
  rank: number;
  job: string;
  format: string;
  worker: number;
  local_rank: number;
  server: number;
  root: boolean;
}

type Files = ReadonlyMap<number, File>;

/** Files of a format that a selection includes, by rank. */
function filesOf(tables: Tables, format: string, { ranks }: SelectionJson): Files {
  const all = (rowsOf(tables.files) as readonly File[]).filter((file) => file.format === format);
  const own = all.filter(({ rank }) => ranks?.includes(rank) === true);
  return new Map((own.length > 0 ? own : all).map((file) => [file.rank, file]));
}

// Requests of servers.

interface Request {
  rank: number;
  key: number;
  /** 0 for a pull. */
  push: number;
  node: number;
  iteration: number;
  start_ns: number;
  /** −1 if it was never answered. */
  dur_ns: number;
  wait_ns: number;
}

function requestsOf(tables: Tables, files: Files, selection: SelectionJson): Request[] {
  const within = overlapping(selection);
  const [low, high] = [selection.start_ns ?? -Infinity, selection.end_ns ?? Infinity];
  // Unanswered requests have no length: those that begin in the window count.
  return (rowsOf(tables.requests) as readonly Request[]).filter(
    ({ rank, start_ns: start, dur_ns: dur }) =>
      files.has(rank) && (dur < 0 ? start >= low && start < high : within(start, dur)),
  );
}

/** How late a node or worker is with one key or partition. */
interface Lag {
  job: string;
  node: number;
  iteration: number;
  start_ns: number;
  lag: number;
  /** Whether it alone comes last. */
  isLast: boolean;
}

type Arrival = Pick<Request, "rank" | "key"> & Lag;

/** Arrivals of pushes, in iterations that every node of the server pushed. */
function arrivalsOf(requests: readonly Request[], files: Files): Arrival[] {
  const pushes = requests.filter(({ push }) => push === 1);
  return grouped(pushes, ({ rank }) => rank).flatMap((own) => {
    const nodes = new Set(own.map(({ node }) => node)).size;
    return grouped(own, ({ key, iteration }) => `${key} ${iteration}`)
      .filter((group) => nodes > 1 && group.length === nodes)
      .flatMap((group) => {
        const starts = group.map(({ start_ns }) => start_ns);
        const [first, latest] = [Math.min(...starts), Math.max(...starts)];
        const isAlone = starts.filter((start) => start === latest).length === 1;
        return group.map(({ rank, key, node, iteration, start_ns }) => ({
          rank,
          key,
          node,
          iteration,
          start_ns,
          job: files.get(rank)!.job,
          lag: start_ns - first,
          isLast: isAlone && start_ns === latest,
        }));
      });
  });
}

function nodeLabel(node: number): string {
  return node < 8 ? `node ${node}` : `node ${node} (ps rank ${Math.floor((node - 8) / 2)})`;
}

/** Lag of each worker in each iteration, from the servers' data or else the workers' pulls. */
export function stragglers(tables: Tables, selection: SelectionJson): PanelFrame {
  const byServers = tables.requests !== undefined;
  const files = filesOf(tables, "byteps-server", selection);
  const all: readonly Lag[] = byServers
    ? arrivalsOf(requestsOf(tables, files, selection), files)
    : pullsOf(tables, selection);
  const found = grouped(all, ({ job, iteration }) => `${iteration} ${job}`).flatMap(
    (ofIteration) => {
      const starts = ofIteration.map(({ start_ns }) => start_ns);
      const start_ns = starts.reduce((a, b) => Math.min(a, b));
      const end_ns = starts.reduce((a, b) => Math.max(a, b)) + 1;
      return grouped(ofIteration, ({ node }) => node).map((own) => {
        const { job, node, iteration } = own[0]!;
        return {
          ...{
            job,
            node,
            iteration,
            keys: own.length,
            lag_ns: sumOf(own, "lag"),
            start_ns,
            end_ns,
          },
          last: own.filter(({ isLast }) => isLast).length,
          label: byServers ? nodeLabel(node) : `worker ${node}`,
        };
      });
    },
  );
  found.sort((a, b) => byCodePoints(a.job, b.job) || a.node - b.node || a.iteration - b.iteration);
  const columns = fieldsOf(found, "job node iteration keys lag_ns last start_ns end_ns label");
  const none = byServers ? "no iteration was pushed by every node" : NO_PULLS;
  const source = byServers ? "servers" : "workers";
  return frameOf(columns, { source }, found.length === 0 ? none : "");
}

export function servers(tables: Tables, selection: SelectionJson): PanelFrame {
  const files = filesOf(tables, "byteps-server", selection);
  const requests = requestsOf(tables, files, selection);
  const found = Array.from(tables.requests ? files.values() : [], (file) => {
    const own = requests.filter(({ rank }) => rank === file.rank);
    const closed = own.filter(({ dur_ns }) => dur_ns >= 0);
    const pushes = closed.filter(({ push }) => push === 1);
    const pulls = closed.filter(({ push }) => push !== 1);
    return { file, own, closed, pushes, pulls };
  });
  const columns = columnsOf(found, {
    server: ({ file }) => file.server,
    requests: ({ closed }) => closed.length,
    open: ({ own, closed }) => own.length - closed.length,
    keys: ({ own }) => new Set(own.map(({ key }) => key)).size,
    iterations: ({ own }) => completeIterations(own),
    busy_ns: ({ pushes }) =>
      unionLength(pushes.map(({ start_ns: start, dur_ns: dur }) => [start, start + dur])),
    push_ns: ({ pushes }) => sumOf(pushes, "dur_ns"),
    wait_ns: ({ pulls }) => sumOf(pulls, "wait_ns"),
    service_ns: ({ pulls }) => sumOf(pulls, "dur_ns") - sumOf(pulls, "wait_ns"),
    job: ({ file }) => file.job || null,
    ranks: ({ file }) => String(file.rank),
  });
  return frameOf(columns, {}, noteOf(tables.requests, NO_SERVERS));
}

function completeIterations(requests: readonly Request[]): number {
  const pushes = requests.filter(({ push }) => push === 1);
  const nodes = new Set(pushes.map(({ node }) => node)).size;
  const groups = grouped(pushes, ({ key, iteration }) => `${key} ${iteration}`);
  return groups.filter(({ length }) => length === nodes).length;
}

export function requestsByKey(tables: Tables, selection: SelectionJson): PanelFrame {
  const files = filesOf(tables, "byteps-server", selection);
  const requests = requestsOf(tables, files, selection);
  const byKey = ({ rank, key }: Pick<Request, "rank" | "key">): string => `${rank} ${key}`;
  const arrivals = new Map(
    grouped(arrivalsOf(requests, files), byKey).map((group) => [byKey(group[0]!), group]),
  );
  const keys = tables.requests?.attrs.keys as [text: string, tensor: string, partition: number][];
  const closed = requests.filter(({ dur_ns }) => dur_ns >= 0);
  const found = grouped(closed, byKey).map((group) => {
    const { rank, key } = group[0]!;
    const pushes = group.filter(({ push }) => push === 1);
    const pulls = group.filter(({ push }) => push !== 1);
    const last = lastOf(arrivals.get(byKey(group[0]!)) ?? []);
    return { rank, key, pushes, pulls, last, wait: sumOf(group, "wait_ns") };
  });
  found.sort((a, b) => b.wait - a.wait || a.rank - b.rank || a.key - b.key);
  const columns = columnsOf(found, {
    name: ({ key }) => keys[key]![0],
    rank: ({ rank }) => rank,
    server: ({ rank }) => files.get(rank)!.server,
    tensor: ({ key }) => keys[key]![1],
    partition: ({ key }) => keys[key]![2],
    requests: ({ pushes, pulls }) => pushes.length + pulls.length,
    pushes: ({ pushes }) => pushes.length,
    push_ns: ({ pushes }) => sumOf(pushes, "dur_ns"),
    pull_ns: ({ pulls }) => sumOf(pulls, "dur_ns"),
    wait_ns: ({ wait }) => wait,
    service_ns: ({ pulls }) => sumOf(pulls, "dur_ns") - sumOf(pulls, "wait_ns"),
    last_node: ({ last }) => last?.node ?? -1,
    last_share: ({ last }) => last?.share ?? null,
    last_lag_ns: ({ last }) => last?.lag ?? null,
  });
  return frameOf(columns, {}, noteOf(tables.requests, NO_SERVERS));
}

/** The node that most often comes last, its share of the iterations, and its mean lag. */
function lastOf(arrivals: readonly Arrival[]): { node: number; share: number; lag: number } | null {
  const nodes = grouped(arrivals, ({ node }) => node).map((own) => ({
    node: own[0]!.node,
    share: own.filter(({ isLast }) => isLast).length / own.length,
    lag: sumOf(own, "lag") / own.length,
  }));
  nodes.sort((a, b) => b.share - a.share || a.node - b.node);
  const [most] = nodes;
  return most === undefined || most.share === 0 ? null : most;
}

// Gradients and stages of workers.

interface Gradient {
  rank: number;
  tensor: string;
  start_ns: number;
  total_ns: number;
  /** −1 if no stage was recorded. */
  busy_ns: number;
  queue_ns: number;
  tail_ns: number;
  critical: boolean;
}

export function gradients(tables: Tables, selection: SelectionJson): PanelFrame {
  const files = filesOf(tables, "byteps", selection);
  const within = overlapping(selection);
  const rows = (rowsOf(tables.gradients) as readonly Gradient[]).filter(
    ({ rank, start_ns, total_ns, busy_ns }) =>
      files.has(rank) && busy_ns >= 0 && within(start_ns, total_ns),
  );
  const found = grouped(rows, ({ tensor, rank }) => {
    const { job, worker } = files.get(rank)!;
    return `${worker} ${job}\0${tensor}`;
  }).map((group) => {
    // If the worker's root GPU has the tensor, only it counts: other queues contain its work.
    const ofRoot = group.filter(({ rank }) => files.get(rank)!.root);
    const counted = ofRoot.length > 0 ? ofRoot : group;
    const { job, worker } = files.get(group[0]!.rank)!;
    return {
      ...{ tensor: group[0]!.tensor, job, worker, count: counted.length },
      total_ns: sumOf(counted, "total_ns"),
      busy_ns: sumOf(counted, "busy_ns"),
      queue_ns: sumOf(counted, "queue_ns"),
      tail_ns: sumOf(counted, "tail_ns"),
      critical: counted.filter(({ critical }) => critical).length,
      root: ofRoot.length > 0,
    };
  });
  const slowest = new Map<string, number>();
  for (const { tensor, total_ns, count } of found) {
    slowest.set(tensor, Math.max(slowest.get(tensor) ?? 0, total_ns / count));
  }
  found.sort(
    (a, b) =>
      slowest.get(b.tensor)! - slowest.get(a.tensor)! ||
      byCodePoints(a.tensor, b.tensor) ||
      byCodePoints(a.job, b.job) ||
      a.worker - b.worker,
  );
  const columns = fieldsOf(
    found,
    "tensor job worker count total_ns busy_ns queue_ns tail_ns critical root",
  );
  return frameOf(columns, {}, noteOf(tables.gradients, NO_WORKERS));
}

interface Stage {
  rank: number;
  /** Place in the table's list of stages. */
  stage: number;
  key: number;
  step: number;
  start_ns: number;
  dur_ns: number;
  queue_ns: number;
}

/** Stages of the chosen files that overlap the window, and the names of all stages. */
function stagesOf(tables: Tables, files: Files, selection: SelectionJson) {
  const within = overlapping(selection);
  const rows = (rowsOf(tables.stages) as readonly Stage[]).filter(
    ({ rank, start_ns, dur_ns }) => files.has(rank) && within(start_ns, dur_ns),
  );
  return { rows, names: (tables.stages?.attrs.stages ?? []) as string[] };
}

export function stages(tables: Tables, selection: SelectionJson): PanelFrame {
  const files = filesOf(tables, "byteps", selection);
  const [low, high] = [selection.start_ns ?? -Infinity, selection.end_ns ?? Infinity];
  const { rows, names } = stagesOf(tables, files, selection);
  const found = grouped(rows, ({ rank, stage }) => `${rank} ${stage}`).map((group) => {
    const spans = group.map(({ start_ns: start, dur_ns: dur }): [number, number] => [
      Math.max(start, low),
      Math.min(start + dur, high),
    ]);
    const durs = spans.map(([start, end]) => end - start);
    const { rank, stage } = group[0]!;
    return { group, file: files.get(rank)!, stage, spans, durs, time: sum(durs) };
  });
  found.sort((a, b) => a.file.rank - b.file.rank || a.stage - b.stage);
  const columns = columnsOf(found, {
    rank: ({ file }) => file.rank,
    worker: ({ file }) => file.worker,
    local_rank: ({ file }) => file.local_rank,
    stage: ({ stage }) => names[stage]!,
    count: ({ group }) => group.length,
    sum_ns: ({ time }) => time,
    union_ns: ({ spans }) => unionLength(spans),
    mean_ns: ({ time, group }) => time / group.length,
    max_ns: ({ durs }) => durs.reduce((a, b) => Math.max(a, b)),
    queue_ns: ({ group }) => sumOf(group, "queue_ns"),
    root: ({ file }) => file.root,
    waits_for_root: ({ file, stage }) => names[stage] === "COPYH2D" && !file.root,
    job: ({ file }) => file.job || null,
  });
  return frameOf(columns, {}, noteOf(tables.stages, NO_WORKERS));
}

// Pulls of workers and their waits.

const NO_PULLS = "it takes PULLs of two workers or more";

interface Pull extends Lag {
  dur: number;
  /** Time beyond the shortest pull of the same partition and step. */
  slack: number;
}

/** Pulls of partitions and steps that every worker of the job pulled. */
function pullsOf(tables: Tables, selection: SelectionJson): Pull[] {
  const files = filesOf(tables, "byteps", selection);
  const { rows, names } = stagesOf(tables, files, selection);
  const pulls = rows.filter(({ stage }) => names[stage] === "PULL");
  return grouped(pulls, ({ rank }) => files.get(rank)!.job).flatMap((ofJob) => {
    const workerOf = ({ rank }: Stage): number => files.get(rank)!.worker;
    const workers = new Set(ofJob.map(workerOf)).size;
    return grouped(ofJob, ({ key, step }) => `${key} ${step}`)
      .filter(
        (group) =>
          workers > 1 && group.length === workers && new Set(group.map(workerOf)).size === workers,
      )
      .flatMap((group) => {
        const durs = group.map(({ dur_ns }) => dur_ns);
        const [least, most] = [Math.min(...durs), Math.max(...durs)];
        const isAlone = durs.filter((dur) => dur === least).length === 1;
        return group.map((one) => ({
          job: files.get(one.rank)!.job,
          node: workerOf(one),
          iteration: one.step,
          start_ns: one.start_ns,
          dur: one.dur_ns,
          slack: one.dur_ns - least,
          lag: most - one.dur_ns,
          isLast: isAlone && one.dur_ns === least,
        }));
      });
  });
}

export function blame(tables: Tables, selection: SelectionJson): PanelFrame {
  const found = grouped(pullsOf(tables, selection), ({ job, node }) => `${node} ${job}`).map(
    (pulls) => {
      const { job, node: worker } = pulls[0]!;
      return {
        job,
        worker,
        pulls,
        share: pulls.filter(({ isLast }) => isLast).length / pulls.length,
      };
    },
  );
  found.sort((a, b) => byCodePoints(a.job, b.job) || a.worker - b.worker);
  const columns = columnsOf(found, {
    worker: ({ worker }) => worker,
    blame: ({ share }) => share,
    slack_ns: ({ pulls }) => sumOf(pulls, "slack"),
    pulls: ({ pulls }) => pulls.length,
    pull_ns: ({ pulls }) => sumOf(pulls, "dur"),
    straggler: ({ share }) => share >= CONSISTENT_SHARE,
    job: ({ job }) => job || null,
    ranks: ({ job, worker }) =>
      (rowsOf(tables.files) as readonly File[])
        .filter((file) => file.job === job && file.worker === worker)
        .map(({ rank }) => rank)
        .join(","),
  });
  return frameOf(columns, {}, found.length === 0 ? NO_PULLS : "");
}
