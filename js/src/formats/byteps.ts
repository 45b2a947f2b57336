/**
 * Frames of the BytePS panels from tables in the page, as in `formats/byteps/frames.py`. Selected
 * ranks restrict only files of their own kind.
 */

import { LIMITS } from "../facts/limits";
import { buildColumns, makeFrame } from "../engine/frames";
import { compareCodePoints } from "../engine/panel_names";
import { sum } from "../expressions/numbers";
import { noteFor } from "../facts/notes";
import type { PanelFrame, SelectionJson } from "../protocol/source";
import {
  columnsOfRows,
  groupBy,
  tableNote,
  overlapTest,
  rowsOf,
  sumBy,
  type ColumnTables,
  unionLength,
} from "./shared";

const NO_WORKERS = noteFor("no_byteps_workers");
const NO_SERVERS = noteFor("no_byteps_servers");

interface FileRow {
  rank: number;
  job: string;
  format: string;
  worker: number;
  local_rank: number;
  server: number;
  root: boolean;
}

type FilesOfRanks = ReadonlyMap<number, FileRow>;

/** Return the files of a format that a selection includes, keyed by rank. */
function filesOf(tables: ColumnTables, format: string, { ranks }: SelectionJson): FilesOfRanks {
  const all = (rowsOf(tables.files) as readonly FileRow[]).filter((file) => file.format === format);
  const rowsOfRanks = all.filter(({ rank }) => ranks?.includes(rank) === true);
  return new Map((rowsOfRanks.length > 0 ? rowsOfRanks : all).map((file) => [file.rank, file]));
}

// Server requests.

interface RequestRow {
  rank: number;
  key: number;
  /** 1 for a push, 0 for a pull. */
  push: number;
  node: number;
  iteration: number;
  start_ns: number;
  /** −1 if the request was never answered. */
  dur_ns: number;
  wait_ns: number;
}

function requestsOf(
  tables: ColumnTables,
  files: FilesOfRanks,
  selection: SelectionJson,
): RequestRow[] {
  const within = overlapTest(selection);
  const [low, high] = [selection.start_ns ?? -Infinity, selection.end_ns ?? Infinity];
  // Unanswered requests have no duration. They count if they begin in the window.
  return (rowsOf(tables.requests) as readonly RequestRow[]).filter(
    ({ rank, start_ns: start, dur_ns: dur }) =>
      files.has(rank) && (dur < 0 ? start >= low && start < high : within(start, dur)),
  );
}

/** How late a node or worker is with a key or partition. */
interface PushLag {
  job: string;
  node: number;
  iteration: number;
  start_ns: number;
  lag: number;
  /** Whether it alone arrives last. */
  isLast: boolean;
}

type PushArrival = Pick<RequestRow, "rank" | "key"> & PushLag;

/** Return the arrivals of pushes, for iterations that every node of the server pushed. */
function pushArrivals(requests: readonly RequestRow[], files: FilesOfRanks): PushArrival[] {
  const pushes = requests.filter(({ push }) => push === 1);
  return groupBy(pushes, ({ rank }) => rank).flatMap((ofServer) => {
    const nodes = new Set(ofServer.map(({ node }) => node)).size;
    return groupBy(ofServer, ({ key, iteration }) => `${key} ${iteration}`)
      .filter((group) => nodes > 1 && group.length === nodes)
      .flatMap((group) => {
        const starts = group.map(({ start_ns }) => start_ns);
        const [first, latest] = [Math.min(...starts), Math.max(...starts)];
        const isAlone = starts.filter((start) => start === latest).length === 1;
        return group.map((push) => ({
          ...push,
          job: files.get(push.rank)!.job,
          lag: push.start_ns - first,
          isLast: isAlone && push.start_ns === latest,
        }));
      });
  });
}

type ClockRow = Record<"node" | "worker" | "alternatives", number> & { job: string | null };

/** Return a node's name. If `byteps_clock` leaves only one possible worker, name that worker. */
function nodeName(tables: ColumnTables, job: string, node: number): string {
  const clock = (rowsOf(tables.byteps_clock) as readonly ClockRow[]).find(
    (row) => row.node === node && (row.job ?? "") === job && row.alternatives === 0,
  );
  if (clock !== undefined) return `worker ${clock.worker} (node ${node})`;
  return node < 8 ? `node ${node}` : `node ${node} (ps rank ${Math.floor((node - 8) / 2)})`;
}

function lagsOfNodes(lags: readonly PushLag[]) {
  const starts = lags.map(({ start_ns }) => start_ns);
  const start_ns = starts.reduce((a, b) => Math.min(a, b));
  const end_ns = starts.reduce((a, b) => Math.max(a, b)) + 1;
  return groupBy(lags, ({ node }) => node).map((ofNode) => {
    const { job, node, iteration } = ofNode[0]!;
    const last = ofNode.filter(({ isLast }) => isLast).length;
    const lag_ns = sumBy(ofNode, "lag");
    return { job, node, iteration, keys: ofNode.length, lag_ns, last, start_ns, end_ns };
  });
}

/** Return each worker's lag per iteration, from server data or, failing that, worker pulls. */
export function stragglersFrame(tables: ColumnTables, selection: SelectionJson): PanelFrame {
  const byServers = tables.requests !== undefined;
  const files = filesOf(tables, "byteps-server", selection);
  const lags: readonly PushLag[] = byServers
    ? pushArrivals(requestsOf(tables, files, selection), files)
    : workerPulls(tables, selection);
  const nameOf = (job: string, node: number): string =>
    byServers ? nodeName(tables, job, node) : `worker ${node}`;
  const rows = groupBy(lags, ({ job, iteration }) => `${iteration} ${job}`)
    .flatMap(lagsOfNodes)
    .map((row) => ({ ...row, label: nameOf(row.job, row.node) }));
  rows.sort(
    (a, b) => compareCodePoints(a.job, b.job) || a.node - b.node || a.iteration - b.iteration,
  );
  const columns = columnsOfRows(rows, "job node iteration keys lag_ns last start_ns end_ns label");
  const emptyNote = byServers ? "no iteration was pushed by every node" : NO_PULLS;
  const source = byServers ? "servers" : "workers";
  return makeFrame(columns, { source }, rows.length === 0 ? emptyNote : "");
}

export function serversFrame(tables: ColumnTables, selection: SelectionJson): PanelFrame {
  const files = filesOf(tables, "byteps-server", selection);
  const requests = requestsOf(tables, files, selection);
  const serverRows = Array.from(tables.requests ? files.values() : [], (file) => {
    const ofServer = requests.filter(({ rank }) => rank === file.rank);
    const closed = ofServer.filter(({ dur_ns }) => dur_ns >= 0);
    const pushes = closed.filter(({ push }) => push === 1);
    const pulls = closed.filter(({ push }) => push !== 1);
    return { file, ofServer, closed, pushes, pulls };
  });
  const columns = buildColumns(serverRows, {
    server: ({ file }) => file.server,
    requests: ({ closed }) => closed.length,
    open: ({ ofServer, closed }) => ofServer.length - closed.length,
    keys: ({ ofServer }) => new Set(ofServer.map(({ key }) => key)).size,
    iterations: ({ ofServer }) => completeIterations(ofServer),
    busy_ns: ({ pushes }) =>
      unionLength(pushes.map(({ start_ns: start, dur_ns: dur }) => [start, start + dur])),
    push_ns: ({ pushes }) => sumBy(pushes, "dur_ns"),
    wait_ns: ({ pulls }) => sumBy(pulls, "wait_ns"),
    service_ns: ({ pulls }) => sumBy(pulls, "dur_ns") - sumBy(pulls, "wait_ns"),
    job: ({ file }) => file.job || null,
    ranks: ({ file }) => String(file.rank),
  });
  return makeFrame(columns, {}, tableNote(tables.requests, NO_SERVERS));
}

function completeIterations(requests: readonly RequestRow[]): number {
  const pushes = requests.filter(({ push }) => push === 1);
  const nodes = new Set(pushes.map(({ node }) => node)).size;
  const groups = groupBy(pushes, ({ key, iteration }) => `${key} ${iteration}`);
  return groups.filter(({ length }) => length === nodes).length;
}

export function requestsFrame(tables: ColumnTables, selection: SelectionJson): PanelFrame {
  const files = filesOf(tables, "byteps-server", selection);
  const requests = requestsOf(tables, files, selection);
  const byKey = ({ rank, key }: Pick<RequestRow, "rank" | "key">): string => `${rank} ${key}`;
  const arrivals = new Map(
    groupBy(pushArrivals(requests, files), byKey).map((group) => [byKey(group[0]!), group]),
  );
  const keys = tables.requests?.attrs.keys as [text: string, tensor: string, partition: number][];
  const closed = requests.filter(({ dur_ns }) => dur_ns >= 0);
  const keyRows = groupBy(closed, byKey).map((group) => {
    const { rank, key } = group[0]!;
    const pushes = group.filter(({ push }) => push === 1);
    const pulls = group.filter(({ push }) => push !== 1);
    const last = lastNodeOf(arrivals.get(byKey(group[0]!)) ?? []);
    return { rank, key, pushes, pulls, last, wait: sumBy(group, "wait_ns") };
  });
  keyRows.sort((a, b) => b.wait - a.wait || a.rank - b.rank || a.key - b.key);
  const columns = buildColumns(keyRows, {
    name: ({ key }) => keys[key]![0],
    rank: ({ rank }) => rank,
    server: ({ rank }) => files.get(rank)!.server,
    tensor: ({ key }) => keys[key]![1],
    partition: ({ key }) => keys[key]![2],
    requests: ({ pushes, pulls }) => pushes.length + pulls.length,
    pushes: ({ pushes }) => pushes.length,
    push_ns: ({ pushes }) => sumBy(pushes, "dur_ns"),
    pull_ns: ({ pulls }) => sumBy(pulls, "dur_ns"),
    wait_ns: ({ wait }) => wait,
    service_ns: ({ pulls }) => sumBy(pulls, "dur_ns") - sumBy(pulls, "wait_ns"),
    last_node: ({ last }) => last?.node ?? -1,
    last_share: ({ last }) => last?.share ?? null,
    last_lag_ns: ({ last }) => last?.lag ?? null,
  });
  return makeFrame(columns, {}, tableNote(tables.requests, NO_SERVERS));
}

/** Return the share of arrivals at which only the node or worker was last. */
const lastShare = (arrivals: readonly PushLag[]): number =>
  arrivals.filter(({ isLast }) => isLast).length / arrivals.length;

/** Return the node that comes last most often, its share of iterations, and its mean lag. */
function lastNodeOf(
  arrivals: readonly PushArrival[],
): { node: number; share: number; lag: number } | null {
  const nodes = groupBy(arrivals, ({ node }) => node).map((ofNode) => ({
    node: ofNode[0]!.node,
    share: lastShare(ofNode),
    lag: sumBy(ofNode, "lag") / ofNode.length,
  }));
  nodes.sort((a, b) => b.share - a.share || a.node - b.node);
  const [lastNode] = nodes;
  return lastNode === undefined || lastNode.share === 0 ? null : lastNode;
}

// Gradients and stages on workers.

interface GradientRow {
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

/** Sum the rows of a worker's tensor. */
function gradientTotal(rows: readonly GradientRow[], files: FilesOfRanks) {
  const [{ tensor, rank: firstRank }] = rows as [GradientRow];
  const { job, worker } = files.get(firstRank)!;
  // If the worker's root GPU has the tensor, only its rows count, as they include the other queues.
  const ofRoot = rows.filter(({ rank }) => files.get(rank)!.root);
  const counted = ofRoot.length > 0 ? ofRoot : rows;
  return {
    tensor,
    job,
    worker,
    count: counted.length,
    total_ns: sumBy(counted, "total_ns"),
    busy_ns: sumBy(counted, "busy_ns"),
    queue_ns: sumBy(counted, "queue_ns"),
    tail_ns: sumBy(counted, "tail_ns"),
    critical: counted.filter(({ critical }) => critical).length,
    root: ofRoot.length > 0,
  };
}

export function gradientsFrame(tables: ColumnTables, selection: SelectionJson): PanelFrame {
  const files = filesOf(tables, "byteps", selection);
  const within = overlapTest(selection);
  const rows = (rowsOf(tables.gradients) as readonly GradientRow[]).filter(
    ({ rank, start_ns, total_ns, busy_ns }) =>
      files.has(rank) && busy_ns >= 0 && within(start_ns, total_ns),
  );
  const gradientTotals = groupBy(rows, ({ tensor, rank }) => {
    const { job, worker } = files.get(rank)!;
    return `${worker} ${job}\0${tensor}`;
  }).map((group) => gradientTotal(group, files));
  // Tensors are ordered by their mean time on the slowest worker.
  const slowest = new Map<string, number>();
  for (const { tensor, total_ns, count } of gradientTotals) {
    slowest.set(tensor, Math.max(slowest.get(tensor) ?? 0, total_ns / count));
  }
  gradientTotals.sort(
    (a, b) =>
      slowest.get(b.tensor)! - slowest.get(a.tensor)! ||
      compareCodePoints(a.tensor, b.tensor) ||
      compareCodePoints(a.job, b.job) ||
      a.worker - b.worker,
  );
  const columns = columnsOfRows(
    gradientTotals,
    "tensor job worker count total_ns busy_ns queue_ns tail_ns critical root",
  );
  return makeFrame(columns, {}, tableNote(tables.gradients, NO_WORKERS));
}

interface QueueStageRow {
  rank: number;
  /** Index into the table's list of stages. */
  stage: number;
  key: number;
  step: number;
  start_ns: number;
  dur_ns: number;
  queue_ns: number;
}

/** Return the stages of these files that overlap the window, and the names of all stages. */
function stageRows(tables: ColumnTables, files: FilesOfRanks, selection: SelectionJson) {
  const within = overlapTest(selection);
  const rows = (rowsOf(tables.stages) as readonly QueueStageRow[]).filter(
    ({ rank, start_ns, dur_ns }) => files.has(rank) && within(start_ns, dur_ns),
  );
  return { rows, names: (tables.stages?.attrs.stages ?? []) as string[] };
}

export function stagesFrame(tables: ColumnTables, selection: SelectionJson): PanelFrame {
  const files = filesOf(tables, "byteps", selection);
  const [low, high] = [selection.start_ns ?? -Infinity, selection.end_ns ?? Infinity];
  const { rows, names } = stageRows(tables, files, selection);
  const stageTotals = groupBy(rows, ({ rank, stage }) => `${rank} ${stage}`).map((group) => {
    const spans = group.map(({ start_ns: start, dur_ns: dur }): [number, number] => [
      Math.max(start, low),
      Math.min(start + dur, high),
    ]);
    const durs = spans.map(([start, end]) => end - start);
    const { rank, stage } = group[0]!;
    return { group, file: files.get(rank)!, stage, spans, durs, time: sum(durs) };
  });
  stageTotals.sort((a, b) => a.file.rank - b.file.rank || a.stage - b.stage);
  const columns = buildColumns(stageTotals, {
    rank: ({ file }) => file.rank,
    worker: ({ file }) => file.worker,
    local_rank: ({ file }) => file.local_rank,
    stage: ({ stage }) => names[stage]!,
    count: ({ group }) => group.length,
    sum_ns: ({ time }) => time,
    union_ns: ({ spans }) => unionLength(spans),
    mean_ns: ({ time, group }) => time / group.length,
    max_ns: ({ durs }) => durs.reduce((a, b) => Math.max(a, b)),
    queue_ns: ({ group }) => sumBy(group, "queue_ns"),
    root: ({ file }) => file.root,
    waits_for_root: ({ file, stage }) => names[stage] === "COPYH2D" && !file.root,
    job: ({ file }) => file.job || null,
  });
  return makeFrame(columns, {}, tableNote(tables.stages, NO_WORKERS));
}

// Workers' pulls, and the waits in them.

const NO_PULLS = "PULLs of at least two workers are needed";

/** Return the pulls of those partitions and steps that all workers of the job pulled. */
function workerPulls(tables: ColumnTables, selection: SelectionJson) {
  const files = filesOf(tables, "byteps", selection);
  const { rows, names } = stageRows(tables, files, selection);
  const pulls = rows.filter(({ stage }) => names[stage] === "PULL");
  return groupBy(pulls, ({ rank }) => files.get(rank)!.job).flatMap((ofJob) => {
    const workerOf = ({ rank }: QueueStageRow): number => files.get(rank)!.worker;
    const workers = new Set(ofJob.map(workerOf)).size;
    return groupBy(ofJob, ({ key, step }) => `${key} ${step}`)
      .filter(
        (group) =>
          workers > 1 && group.length === workers && new Set(group.map(workerOf)).size === workers,
      )
      .flatMap((group) => {
        const durs = group.map(({ dur_ns }) => dur_ns);
        const [minDur, maxDur] = [Math.min(...durs), Math.max(...durs)];
        const isAlone = durs.filter((dur) => dur === minDur).length === 1;
        return group.map((pull) => ({
          job: files.get(pull.rank)!.job,
          node: workerOf(pull),
          iteration: pull.step,
          start_ns: pull.start_ns,
          dur: pull.dur_ns,
          // Excess over the shortest pull of the same partition and step.
          slack: pull.dur_ns - minDur,
          lag: maxDur - pull.dur_ns,
          isLast: isAlone && pull.dur_ns === minDur,
        }));
      });
  });
}

export function blameFrame(tables: ColumnTables, selection: SelectionJson): PanelFrame {
  const workerRows = groupBy(
    workerPulls(tables, selection),
    ({ job, node }) => `${node} ${job}`,
  ).map((pulls) => {
    const { job, node: worker } = pulls[0]!;
    return { job, worker, pulls, share: lastShare(pulls) };
  });
  workerRows.sort((a, b) => compareCodePoints(a.job, b.job) || a.worker - b.worker);
  const columns = buildColumns(workerRows, {
    worker: ({ worker }) => worker,
    blame: ({ share }) => share,
    slack_ns: ({ pulls }) => sumBy(pulls, "slack"),
    pulls: ({ pulls }) => pulls.length,
    pull_ns: ({ pulls }) => sumBy(pulls, "dur"),
    straggler: ({ share }) => share >= LIMITS.straggler_share,
    job: ({ job }) => job || null,
    ranks: ({ job, worker }) =>
      (rowsOf(tables.files) as readonly FileRow[])
        .filter((file) => file.job === job && file.worker === worker)
        .map(({ rank }) => rank)
        .join(","),
  });
  return makeFrame(columns, {}, workerRows.length === 0 ? NO_PULLS : "");
}
