/** Charts of BytePS's servers, and who is late: as `formats/byteps/views.py` draws them. */

import { formatCount, formatDuration, plural } from "../../draw/format";
import type { Theme } from "../../draw/theme";
import { numbers, type RowsContent, texts } from "../charts/content";
import { noteOf, sentences } from "../charts/phrases";
import type { PanelFrame } from "../types";
import { CONSISTENT_SHARE, ranksOf } from "./byteps_files";
import { columnsOf, INKS, shade, stack, timeAxis, timeTicks } from "./inks";
import { eachOf } from "./rows";

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

export function serversChart(frame: PanelFrame): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const number = numbers(frame, "server");
  const [push, service, wait, busy, keys, requests] = eachOf(
    ["push_ns", "service_ns", "wait_ns", "busy_ns", "keys", "requests"],
    (name) => numbers(frame, name),
  );
  const { data, legend, ends } = stack(frame.rows, [
    { ink: "communication", words: "pushes", values: push },
    { ink: "memory", words: "pulls served", values: service },
    { ink: "wait", words: "pulls wait for a push", values: wait },
  ]);
  const mean = busy.reduce((all, ns) => all + ns, 0) / busy.length;
  const uneven = mean > 0 ? Math.max(...busy) / mean : 1;
  const finding =
    frame.rows > 1 ? `the busiest server works ${uneven.toFixed(2)} times the mean` : "";
  const most = Math.max(...ends);
  const names = number.map((one) => `server ${one}`);
  return {
    title: "Load of the servers",
    subtitle: sentences("time of requests added up, which overlap", finding, noteOf(frame)),
    finding,
    names,
    keys: names.map((_, row) => ranksOf(frame, row)),
    data,
    legend,
    ...timeAxis(most),
    head: "",
    columns: [
      { head: "keys", texts: keys.map(formatCount) },
      { head: "busy", texts: busy.map(formatDuration), least: 420 },
    ],
    tip: (row) => ({
      heading: names[row]!,
      lines: [
        ["pushes", formatDuration(push[row]!)],
        ["pulls served", formatDuration(service[row]!)],
        ["pulls wait", formatDuration(wait[row]!)],
        ["works on pushes", formatDuration(busy[row]!)],
        ["requests", formatCount(requests[row]!)],
        ["keys", formatCount(keys[row]!)],
      ],
    }),
  };
}

export function clockChart(frame: PanelFrame): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const [worker, server, rank, other, offset, error, low, high, requests] = eachOf(
    [
      "worker",
      "server",
      "rank",
      "server_rank",
      "offset_ns",
      "error_ns",
      "low_ns",
      "high_ns",
      "requests",
    ],
    (name) => numbers(frame, name),
  );
  const [least, most] = [Math.min(0, ...low), Math.max(0, ...high)];
  const around = Math.max(most - least, 1) * 0.04;
  const signed = (ns: number): string => `${ns > 0 ? "+" : ""}${formatDuration(ns)}`;
  const said = offset.map((ns, row) => `${signed(ns)} ± ${formatDuration(error[row]!)}`);
  const names = worker.map((one, row) => `worker ${one} · server ${server[row]}`);
  return {
    title: "Clocks of servers against workers",
    subtitle: sentences(
      "server's clock less worker's; the line holds every value that all requests allow",
      noteOf(frame),
    ),
    finding: `errors up to ${formatDuration(Math.max(...error))}`,
    names,
    keys: names.map((_, row) => [rank[row]!, other[row]!]),
    data: columnsOf(
      names.map((_, row) => row),
      {
        left_communication: offset.map((ns) => ns - around / 6),
        right_communication: offset.map((ns) => ns + around / 6),
        low,
        high,
      },
    ),
    xStart: least - around,
    xEnd: most + around,
    ticks: timeTicks(most, least),
    zeroLine: true,
    head: "",
    columns: [{ head: "ahead", texts: said }],
    tip: (row) => ({
      heading: names[row]!,
      lines: [
        ["ahead", said[row]!],
        ["at least", signed(low[row]!)],
        ["at most", signed(high[row]!)],
        ["by requests", formatCount(requests[row]!)],
      ],
    }),
  };
}
