/** Charts of BytePS's workers: as `formats/byteps/views.py` draws them. */

import { formatCount, formatDuration, formatShare, plural } from "../../draw/format";
import { numbers, type RowsContent, texts } from "../charts/content";
import { noteOf, sentences } from "../charts/phrases";
import type { PanelFrame } from "../types";
import { CONSISTENT_SHARE, ranksOf } from "./byteps_files";
import { stack, timeAxis } from "./inks";
import { eachOf } from "./rows";

const ROWS = 24;
const TENSORS = 10;
const MOST_STAGES = 56;

const NAME = (tensor: string): string => `Comm.${tensor}`;

export function gradientsChart(frame: PanelFrame): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const tensors = texts(frame, "tensor");
  const jobs = texts(frame, "job");
  const workers = numbers(frame, "worker");
  const count = new Set(workers.map((worker, at) => `${jobs[at]} ${worker}`)).size;
  const all = [...new Set(tensors)];
  const kept = new Set(all.slice(0, Math.max(3, Math.min(TENSORS, Math.floor(ROWS / count)))));
  const at = tensors.flatMap((tensor, row) => (kept.has(tensor) ? [row] : []));
  const pick = (name: string): number[] => {
    const values = numbers(frame, name);
    return at.map((row) => values[row]!);
  };
  const counts = pick("count");
  const mean = (name: string): number[] => pick(name).map((sum, row) => sum / counts[row]!);
  const [queue, work, tail, total] = eachOf(["queue_ns", "busy_ns", "tail_ns", "total_ns"], mean);
  const ends = pick("critical");
  const { data, legend } = stack(at.length, [
    { ink: "queue", words: "queue", values: queue },
    { ink: "communication", words: "work", values: work },
    { ink: "other", words: "tail", values: tail },
  ]);
  const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
  const queued = sum(pick("queue_ns")) / Math.max(sum(pick("total_ns")), 1);
  const most = Math.max(...total);
  const name = (row: number): string => tensors[at[row]!]!;
  const short = (row: number): string => name(row).replace(/^byteps\./, "");
  const left = all.length - kept.size;
  const finding = `${name(0)} takes longest, ${formatDuration(total[0]!)}; ${formatShare(queued)} of these is queue`;
  return {
    title: "Slowest gradients",
    subtitle: sentences(
      "one synchronisation, by its partition that ends last; mean over steps, of the root GPU where it is recorded",
      finding,
      left > 0 ? `${plural(left, "faster tensor")} not shown` : "",
      noteOf(frame),
    ),
    finding,
    names: at.map((_, row) => (count > 1 ? `${short(row)} · w${workers[at[row]!]}` : short(row))),
    keys: at.map((_, row) => [NAME(name(row))]),
    data,
    legend,
    ...timeAxis(most),
    head: "",
    columns: [{ head: "each", texts: total.map(formatDuration) }],
    tip: (row) => ({
      heading: `${name(row)} · worker ${workers[at[row]!]}`,
      lines: [
        ["queue", formatDuration(queue[row]!)],
        ["work", formatDuration(work[row]!)],
        ["tail", formatDuration(tail[row]!)],
        ["one synchronisation", formatDuration(total[row]!)],
        ["synchronisations", formatCount(counts[row]!)],
        ["ends last in its step", `${formatCount(ends[row]!)} times`],
      ],
    }),
  };
}

interface StageRow {
  name: string;
  ranks: number[];
  count: number;
  sum: number;
  union: number;
  queue: number;
  waits: boolean;
}

function stageRows(frame: PanelFrame): StageRow[] {
  const stages = texts(frame, "stage");
  const roots = frame.columns.root ?? [];
  const waits = frame.columns.waits_for_root ?? [];
  const [ranks, workers, locals, count, sum, union, queue] = eachOf(
    ["rank", "worker", "local_rank", "count", "sum_ns", "union_ns", "queue_ns"],
    (name) => numbers(frame, name),
  );
  const rows = stages.map((stage, row) => ({
    name: `w${workers[row]} GPU${locals[row]}${roots[row] === true ? " root" : ""} · ${stage}`,
    ranks: [ranks[row]!],
    count: count[row]!,
    sum: sum[row]!,
    union: union[row]!,
    queue: queue[row]!,
    waits: waits[row] === true,
  }));
  if (rows.length <= MOST_STAGES) return rows;
  const groups = new Map<string, StageRow>();
  rows.forEach((row, at) => {
    const key = `${roots[at] === true ? "root GPU" : "other GPU"} · ${stages[at]}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { ...row, name: key });
    else {
      group.ranks.push(...row.ranks);
      group.count += row.count;
      group.sum += row.sum;
      group.union += row.union;
      group.queue += row.queue;
    }
  });
  return [...groups.values()].map((group) => {
    const [kind = "", stage = ""] = group.name.split(" · ");
    return { ...group, name: `${plural(group.ranks.length, kind)} · ${stage}` };
  });
}

export function stagesChart(frame: PanelFrame): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const rows = stageRows(frame);
  const queue = rows.map(({ queue: sum, count }) => sum / count);
  const work = rows.map(({ sum, count }) => sum / count);
  const { data, legend, ends } = stack(rows.length, [
    {
      ink: "queue",
      words: "queue before it",
      values: queue.map((ns, row) => (rows[row]!.waits ? 0 : ns)),
    },
    {
      ink: "wait",
      words: "waiting for the root",
      values: queue.map((ns, row) => (rows[row]!.waits ? ns : 0)),
    },
    { ink: "communication", words: "the stage", values: work },
  ]);
  const most = Math.max(...ends);
  const longest = ends.indexOf(most);
  return {
    title: "Stages of the pipeline",
    subtitle: sentences(
      "mean of a partition's task, along the pipeline",
      "PULL includes waiting for the other workers' pushes",
      noteOf(frame),
    ),
    finding: `${rows[longest]!.name} takes longest, ${formatDuration(most)} a task`,
    names: rows.map(({ name }) => name),
    keys: rows.map(({ ranks }) => ranks),
    data,
    legend,
    ...timeAxis(most),
    head: "",
    pitch: rows.length > 14 ? 16 : 20,
    columns: [
      {
        head: "at a time",
        texts: rows.map(({ sum, union }) => (sum / Math.max(union, 1)).toFixed(1)),
        least: 420,
      },
      { head: "each", texts: ends.map(formatDuration) },
    ],
    tip: (row) => ({
      heading: rows[row]!.name,
      lines: [
        [
          rows[row]!.waits ? "waiting for the root" : "queue before it",
          formatDuration(queue[row]!),
        ],
        ["the stage", formatDuration(work[row]!)],
        ["tasks", formatCount(rows[row]!.count)],
        ["added up", formatDuration(rows[row]!.sum)],
        ["at a time", (rows[row]!.sum / Math.max(rows[row]!.union, 1)).toFixed(1)],
      ],
    }),
  };
}

export function blameChart(frame: PanelFrame): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const workers = numbers(frame, "worker");
  const [share, slack, pulls, sum] = eachOf(["blame", "slack_ns", "pulls", "pull_ns"], (name) =>
    numbers(frame, name),
  );
  const least = sum.map((ns, row) => (ns - slack[row]!) / pulls[row]!);
  const waits = slack.map((ns, row) => ns / pulls[row]!);
  const { data, legend, ends } = stack(frame.rows, [
    { ink: "communication", words: "as the shortest", values: least },
    { ink: "wait", words: "slack: waiting", values: waits },
  ]);
  const worst = share.indexOf(Math.max(...share));
  const stands = share[worst]! > CONSISTENT_SHARE;
  const others = slack.reduce((all, ns) => all + ns, 0);
  const finding = stands
    ? `worker ${workers[worst]} pulls last and waits least, in ${formatShare(share[worst]!)} of PULLs; the others wait ${formatDuration(others)} in all`
    : "nobody stands out";
  const late = new Set(stands ? [worst] : []);
  const most = Math.max(...ends);
  const names = workers.map((worker) => `worker ${worker}`);
  return {
    title: "Whom PULLs wait for",
    subtitle: sentences(
      "mean PULL of a partition; slack is how much longer it is than the shortest worker's",
      finding,
      noteOf(frame),
    ),
    finding,
    names,
    keys: workers.map((_, row) => ranksOf(frame, row)),
    late,
    data,
    legend,
    ...timeAxis(most),
    head: "",
    columns: [{ head: "shortest in", texts: share.map(formatShare), late }],
    tip: (row) => ({
      heading: names[row]!,
      lines: [
        ["as the shortest", formatDuration(least[row]!)],
        ["slack", formatDuration(waits[row]!)],
        ["slack in all", formatDuration(slack[row]!)],
        ["shortest in", formatShare(share[row]!)],
        ["PULLs", formatCount(pulls[row]!)],
      ],
    }),
  };
}
