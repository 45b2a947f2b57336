/** Contents of BytePS's charts. */

import { numbers, type RowsContent, texts } from "../charts/content";
import type { PanelFrame } from "../protocol/source";
import { formatCount, formatDuration, formatShare, plural } from "../ui/formats";
import { noteOf, sentences } from "../ui/text";
import type { Theme } from "../ui/theme";
import { CONSISTENT_SHARE } from "./byteps";
import { columnsOf, eachOf, INKS, shade, stack, timeAxis } from "./shared";

const MOST_CELLS = 400;

interface Cell {
  row: number;
  left: number;
  right: number;
  iteration: number;
  mean: number;
  last: number;
  keys: number;
  window: [number, number];
}

export function stragglersChart(frame: PanelFrame, theme: Theme): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const byServers = frame.attrs.source === "servers";
  const labels = texts(frame, "label");
  const jobs = texts(frame, "job");
  const [iteration, keys, lag, last, start, end] = eachOf(
    ["iteration", "keys", "lag_ns", "last", "start_ns", "end_ns"],
    (name) => numbers(frame, name),
  );
  const rowOf = labels.map((label, at) => `${jobs[at]}\0${label}`);
  const rows = [...new Set(rowOf)];
  const names = rows.map((row) => row.split("\0")[1]!);
  const iterations = [...new Set(iteration)].sort((a, b) => a - b);
  const fold = Math.max(1, Math.ceil(iterations.length / MOST_CELLS));
  const place = new Map(iterations.map((number, at) => [number, Math.floor(at / fold) * fold]));
  const cells = new Map<string, Cell>();
  const sums = rows.map(() => ({ lag: 0, last: 0, keys: 0 }));
  labels.forEach((_, at) => {
    const row = rows.indexOf(rowOf[at]!);
    const sum = sums[row]!;
    sum.lag += lag[at]!;
    sum.last += last[at]!;
    sum.keys += keys[at]!;
    const left = place.get(iteration[at]!)!;
    const cell: Cell = {
      row,
      left,
      right: Math.min(left + fold, iterations.length),
      iteration: iteration[at]!,
      mean: lag[at]! / keys[at]!,
      last: last[at]!,
      keys: keys[at]!,
      window: [start[at]!, end[at]!],
    };
    const known = cells.get(`${row} ${left}`);
    if (known === undefined || known.mean <= cell.mean) cells.set(`${row} ${left}`, cell);
  });
  const drawn = [...cells.values()];
  const most = Math.max(...drawn.map(({ mean }) => mean), 1);
  const fills = drawn.map(({ mean, last: times, keys: of }) =>
    times * 2 > of
      ? shade([theme.lateFill, theme.late], mean / most)
      : shade([theme.lane, theme.ruleStrong], mean / most),
  );
  const score = sums.map(({ last: times, keys: of }) => times / of);
  const worst = score.indexOf(Math.max(...score));
  const lastText = sums.map(
    ({ last: times, keys: of }) => `${formatCount(times)} of ${formatCount(of)}`,
  );
  const finding =
    score[worst]! >= CONSISTENT_SHARE
      ? `${names[worst]} is last ${lastText[worst]} times`
      : "nobody is last most of the time";
  const late = new Set(score.flatMap((part, row) => (part >= CONSISTENT_SHARE ? [row] : [])));
  const tip = ({ row, iteration: number, mean, last: times, keys: of }: Cell) => ({
    heading: `${names[row]} · iteration ${number}`,
    lines: [
      [byServers ? "behind the first" : "shorter than the longest", formatDuration(mean)],
      ["last, alone, for", `${times} of ${plural(of, "key")}`],
    ] as [string, string][],
  });
  const cellAt = (x: number, y: number): Cell | undefined =>
    drawn.find(({ row, left, right }) => row === Math.round(y) && x >= left && x < right);
  return {
    title: "Who is late, iteration by iteration",
    subtitle: sentences(
      byServers
        ? "how long after the first worker's push of a key its own arrives, mean over keys"
        : "how much shorter a worker's PULL is than the longest: who pushes last waits least",
      `${plural(iterations.length, "iteration")} from left to right`,
      fold > 1 ? `each cell the latest of ${fold}` : "",
      finding,
      noteOf(frame),
    ),
    finding,
    names,
    keys: rows.map(() => []),
    late,
    data: columnsOf(
      drawn.map(({ row }) => row),
      {
        left_cell: drawn.map(({ left, right }) => left + (right - left) * 0.03),
        right_cell: drawn.map(({ left, right }) => right - (right - left) * 0.03),
        fill: fills,
      },
    ),
    xStart: 0,
    xEnd: iterations.length,
    ticks: iterations.flatMap((number, at): [number, string][] =>
      at % Math.max(1, Math.ceil(iterations.length / 10)) === 0 ? [[at + 0.5, `${number}`]] : [],
    ),
    head: "",
    legend: [[INKS.indexOf("late"), "last for most keys, the darker the later"]],
    pitch: 28,
    columns: [
      { head: "last", texts: lastText, late },
      {
        head: "behind",
        texts: sums.map(({ lag: sum, keys: of }) => formatDuration(sum / of)),
        least: 420,
      },
    ],
    tip: (row, at) => {
      const cell = cellAt(at, row);
      return cell === undefined ? { heading: names[row]!, lines: [] } : tip(cell);
    },
    hit: (x, y) => {
      const cell = cellAt(x, y);
      return cell === undefined ? null : { tip: tip(cell), ranks: [], window: cell.window };
    },
    chosenMarks: ({ window }) =>
      window === null
        ? null
        : drawn.flatMap((cell, at) =>
            cell.window[0] < window[1] && cell.window[1] > window[0] ? [at] : [],
          ),
  };
}

// Charts of BytePS's workers: as `formats/byteps/views.py` draws them.

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
