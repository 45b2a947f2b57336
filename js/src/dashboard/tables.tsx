/** Definitions of the dashboard's tables: columns, cells and texts. */

import { ranksText } from "../facts/rank_text";
import { LIMITS } from "../facts/limits";
import { lateRanks } from "../charts/content";
import type { CellValue, Kind, PanelFrame } from "../protocol/source";
import { Swatch } from "../ui/controls";
import {
  formatBytes,
  formatDuration,
  formatFlops,
  formatShare,
  formatSizeRange,
} from "../ui/formats";
import { BarCell, countText, durationText, NameButton, numberOrNull } from "../ui/table";
import { frameNote, withPrefix } from "../ui/text";
import type { DashColumn, RowReader, TableSpec } from "./name_table";

/** Smallest share by which an outlier's mean differs. */
const OUTLIER_MIN_EXCESS = 0.05;
/** Minimum number of calls per rank at which a slow rank is reported; fewer prove nothing. */
const MIN_COMPARED_CALLS = 5;

function hasNonZero({ columns }: PanelFrame, column: string): boolean {
  return columns[column]?.some((value) => value !== null && value !== 0) ?? false;
}

/** Return the column of names. A click selects a name; its tooltip is `hover`. */
const nameColumn = (options: {
  title: string;
  hint?: string;
  width: string;
  words(row: RowReader): string;
  hover?(row: RowReader): string;
  kind?(row: RowReader): Kind;
}): DashColumn => ({
  by: "name",
  title: options.title,
  hint: options.hint ?? `By ${options.title}`,
  width: options.width,
  cell: (row, _, on) => (
    <>
      {options.kind && <Swatch kind={options.kind(row)} />}
      <NameButton
        text={options.words(row)}
        title={`${(options.hover ?? options.words)(row)}\nClick selects, Ctrl adds`}
        on={on}
      />
    </>
  ),
});

const NAME_OPTIONS = {
  hint: "By name",
  words: (row: RowReader) => String(row("short") ?? row("name")),
  hover: (row: RowReader) => String(row("name")),
};

const noValue = <span class="hta-note">–</span>;

const barColumn = (
  by: string,
  title: string,
  hint: string,
  formatCell: (value: CellValue) => string,
  options: { kind?(row: RowReader): string; wait?: string } = {},
): DashColumn => ({
  by,
  title,
  hint,
  width: "minmax(96px, 1fr)",
  cell: (row, max) => (
    <BarCell
      value={numberOrNull(row(by))}
      max={max}
      kind={options.kind?.(row) ?? "communication"}
      text={formatCell(row(by))}
      wait={numberOrNull(row(options.wait ?? "")) ?? 0}
    />
  ),
});

/** Return a column of the numbers `by`, shown if the table is at least `from` wide. */
const numberColumn = (
  by: string,
  title: string,
  hint: string,
  text: (value: CellValue) => string,
  from?: number,
): DashColumn => ({
  by,
  title,
  hint,
  isNumber: true,
  ...(from !== undefined && { from }),
  cell: (row) => text(row(by)),
});

/** A column of strings. Empty strings become dashes; `late` cells have the late ranks' color. */
const textColumn = (
  column: string,
  title: string,
  hint: string,
  { from = 0, late = false }: { from?: number; late?: boolean } = {},
): DashColumn => ({
  by: column,
  title,
  hint,
  from,
  cell: (row) => {
    const text = String(row(column) ?? "");
    if (text === "") return noValue;
    return (
      <span class={late ? "hta-late-text" : "hta-note"} title={text}>
        {text}
      </span>
    );
  },
});

const durationColumn = (column: string, title: string, hint: string, from?: number): DashColumn =>
  numberColumn(column, title, hint, durationText, from);

const countColumn = (from?: number): DashColumn =>
  numberColumn("count", "count", "Number of calls, on all ranks", countText, from);

/** Return the rank that is the outlier in all rows that have one; null if the ranks differ. */
function outlierRank(frame: PanelFrame): number | null {
  const { odd_rank: ranks = [], odd_ratio: ratios = [] } = frame.columns;
  const isOutlier = (row: number): boolean =>
    ranks[row] !== null && Math.abs(Number(ratios[row]) - 1) > OUTLIER_MIN_EXCESS;
  const outlierRanks = new Set(ranks.filter((_, row) => isOutlier(row)));
  const [only] = outlierRanks;
  return outlierRanks.size === 1 && typeof only === "number" ? only : null;
}

function OutlierCell({ row, frame }: { row: RowReader; frame: PanelFrame }) {
  const rank = numberOrNull(row("odd_rank"));
  const ratio = numberOrNull(row("odd_ratio"));
  if (rank === null || ratio === null) return noValue;
  const text = `×${ratio.toFixed(2)}`;
  const calls = (numberOrNull(row("count")) ?? 0) / Math.max(numberOrNull(row("ranks")) ?? 1, 1);
  const hasFewCalls = calls < MIN_COMPARED_CALLS;
  const callsText = calls.toFixed(calls % 1 === 0 ? 0 : 1);
  const caveat = hasFewCalls ? `; ${callsText} calls a rank are too few to tell` : "";
  const isSlow = ratio > 1 + OUTLIER_MIN_EXCESS && !hasFewCalls;
  const slowClass = lateRanks(frame).includes(rank) ? "hta-late-text" : "hta-odd-text";
  return (
    <span
      class={isSlow ? slowClass : "hta-note"}
      title={`Rank ${rank}: mean ${text} that of the median rank${caveat}`}
    >
      {rank !== outlierRank(frame) && <small>{`rank ${rank} `}</small>}
      {text}
    </span>
  );
}

/** Return the last column, which shows the outlier rank; none without outliers. */
function outlierColumn(frame: PanelFrame): DashColumn[] {
  if (!hasNonZero(frame, "odd_ratio")) return [];
  const rank = outlierRank(frame);
  return [
    {
      by: "odd_ratio",
      title: rank === null ? "outlier rank" : `rank ${rank}`,
      hint: "The rank whose mean is farthest from the median rank's",
      isNumber: true,
      cell: (row) => <OutlierCell row={row} frame={frame} />,
    },
  ];
}

/** Return columns for how close calls come to the device limits; none if shapes are unknown. */
function rateColumnsOf(frame: PanelFrame, of: string, from = 400): DashColumn[] {
  if (frame.columns.roofline_share === undefined) return [];
  const flopsRate = (value: CellValue): string =>
    typeof value === "number" ? `${formatFlops(value * 1e12)}/s` : "–";
  const bytesRate = (value: CellValue): string =>
    typeof value === "number" ? `${formatBytes(value * 1e9)}/s` : "–";
  return [
    {
      by: "roofline_share",
      title: "roofline",
      hint: `Share of what compute and memory allow, ${of}`,
      isNumber: true,
      from,
      cell: (row) => {
        const bound = row("bound") ?? "";
        return (
          <span title={BOUND_HINTS[String(bound)] ?? "Unknown"}>
            {bound !== "" && <small class="hta-verdict">{`${String(bound)} `}</small>}
            {formatShare(numberOrNull(row("roofline_share")))}
          </span>
        );
      },
    },
    numberColumn("tflop_per_s", "FLOP/s", `FLOPs divided by time, ${of}`, flopsRate, 760),
    numberColumn("gb_per_s", "bytes/s", `Minimum bytes divided by time, ${of}`, bytesRate, 840),
  ];
}

const BOUND_HINTS: Readonly<Record<string, string>> = {
  compute: "Limited by compute",
  memory: "Limited by memory bandwidth",
  overhead: "Short kernels, far below both limits",
};

const kindOf = (row: RowReader): Kind => row("kind") as Kind;

const KERNEL_BAR = { kind: kindOf, wait: "wait_ns" };

const KERNELS: TableSpec = {
  title: "Top kernels",
  about: (frame, ranks, device) => {
    const waits = hasNonZero(frame, "wait_ns") ? "; hatched: waiting" : "";
    return `${device} time by name${ranksSuffix(", ", frame, ranks)}${waits}${outlierSuffix(frame)}`;
  },
  columns: (frame) => [
    nameColumn({ ...NAME_OPTIONS, title: "kernel", width: "minmax(0, 1.6fr)", kind: kindOf }),
    barColumn("sum_ns", "total", "Sum over all calls and ranks", durationText, KERNEL_BAR),
    countColumn(400),
    durationColumn("mean_ns", "mean", "Mean of a call", 440),
    ...rateColumnsOf(frame, "of the operators' calls in which it is the longest kernel"),
    durationColumn("min_ns", "min", "Shortest call", 640),
    durationColumn("max_ns", "max", "Longest call", 640),
    ...outlierColumn(frame),
  ],
  foot: (frame) => {
    const rest = numberOrNull((frame.attrs.rest_ns ?? null) as CellValue);
    return `names are left out${rest === null ? "" : `: ${formatDuration(rest)}`}`;
  },
};

/** Return the kind that takes most of an operator's device time; compute if no kind does. */
function kindOfOperator(row: RowReader): Kind {
  const isMost = (column: string): boolean =>
    2 * Number(row(column) ?? 0) > Number(row("device_total_ns"));
  if (isMost("communication_ns")) return "communication";
  return isMost("memory_ns") ? "memory" : "compute";
}

const OPERATORS: TableSpec = {
  title: "Operators",
  about: (frame, ranks) =>
    `time of the kernels that an operator launched, and of its own CPU work${ranksSuffix("; ", frame, ranks)}${noteSuffix(frame)}`,
  columns: (frame, device) => {
    const launched = "Kernels launched by it or by what it calls";
    const launchedItself = "Kernels launched by the operator itself";
    const ownHint = "CPU time without the operators that it calls";
    const ownCpu = barColumn("cpu_self_ns", "CPU, own", ownHint, durationText, {
      kind: () => "cpu",
    });
    const columns = [
      nameColumn({ ...NAME_OPTIONS, title: "operator", width: "minmax(0, 1.2fr)" }),
      barColumn("device_total_ns", device, launched, durationText, { kind: kindOfOperator }),
      durationColumn("device_self_ns", `${device}, own`, launchedItself, 620),
      { ...ownCpu, from: 420 },
      ...rateColumnsOf(frame, "of its calls"),
      durationColumn("cpu_total_ns", "CPU", "CPU time, including the operators that it calls", 620),
      countColumn(),
    ];
    return columns.filter(({ by }) => !by.startsWith("device_") || hasNonZero(frame, by));
  },
  foot: () => "operators with less time are left out",
};

function ClippedText({ text }: { text: string }) {
  return (
    <div class="hta-note hta-clipped" title={text}>
      {text}
    </div>
  );
}

/** Return the definition of a table by shape, module or source line over the whole job. */
export function groupedTable({ title }: TableSpec, by: string): TableSpec {
  const name = title === "Operators" ? "operator" : "kernel";
  const nameOfWork = {
    ...textColumn("name", name, `By ${name}`, { from: 460 }),
    width: "minmax(0, 1fr)",
    cell: (row: RowReader) => <ClippedText text={String(row("name"))} />,
  };
  return {
    title,
    selectsEvents: true,
    rows: by === "shape" ? "shape" : by,
    about: (_frame, _ranks, device) =>
      `${device} time of the whole job by the ${GROUPING_HINTS[by]}`,
    columns: (frame, device) => [
      nameColumn({
        title: by,
        width: "minmax(0, 1.4fr)",
        words: (row) => shortLabel(String(row("label")), by),
        hover: (row) => `${String(row("label"))} ${String(row("name"))}`.trimEnd(),
        kind: kindOf,
      }),
      ...(by === "shape" ? [nameOfWork] : []),
      barColumn("sum_ns", device, "Sum over all kernels and ranks", durationText, { kind: kindOf }),
      ...rateColumnsOf(frame, "of the calls whose longest kernel is in the row", 0),
      countColumn(520),
      durationColumn("mean_ns", "mean", "Mean of a kernel", 560),
    ],
    foot: () => "rows with less time are left out",
  };
}

const GROUPING_HINTS: Readonly<Record<string, string>> = {
  shape: "shapes of the operator that launched it",
  module: "module that launched it",
  "source line": "innermost Python line that launched it",
};

/** Return the last two parts of a module or file path. Other labels are unchanged. */
function shortLabel(label: string, by: string): string {
  if (by === "module") return label.split(".").slice(-2).join(".");
  return by === "source line" ? label.split("/").slice(-2).join("/") : label;
}

/** Return a text about the ranks in the figures; "" for a single-rank job. */
function ranksSuffix(before: string, frame: PanelFrame, ranks: readonly number[] | null): string {
  if (frame.attrs.job_ranks === 1) return "";
  if (ranks === null) return `${before}all ranks together`;
  return `${before}${ranksText(ranks)} ${ranks.length === 1 ? "alone" : "together"}`;
}

/** Return a text about the rank that the last column singles out; "" if there is none. */
function outlierSuffix(frame: PanelFrame): string {
  const comparesRanks = frame.columns.odd_rank?.some((rank) => rank !== null) ?? false;
  if (!comparesRanks) return "";
  const rank = outlierRank(frame);
  const rankText = rank === null ? "the rank farthest from" : `rank ${rank} against`;
  return ` · last column: ${rankText} the median rank`;
}

// The tables of BytePS requests and of MPI routines, message sizes and hosts.

/** Format a time in seconds. Profiles have whole milliseconds, so shorter times are 0. */
function secondsText(value: CellValue): string {
  if (value === 0) return "<1\u202fms";
  return formatDuration(typeof value === "number" ? value * 1e9 : null);
}

const sizeText = (value: CellValue): string => formatBytes(numberOrNull(value));
/** Format a share. Shares below 1 % have one significant digit, to avoid showing 0 %. */
const shareText = (value: CellValue): string => {
  const part = numberOrNull(value);
  if (part === null || part <= 0 || part >= 0.01) return formatShare(part);
  return `${(part * 100).toPrecision(1)}\u202f%`;
};

const noteSuffix = (frame: PanelFrame): string => withPrefix(" · ", frameNote(frame));

function jobPrefix(frame: PanelFrame, row: RowReader, column: string): string {
  const isSingleJob = new Set(frame.columns.job ?? []).size <= 1;
  return isSingleJob ? String(row(column)) : `${String(row("job"))} · ${String(row(column))}`;
}

const routineColumn = (frame: PanelFrame, width: string): DashColumn =>
  nameColumn({ title: "routine", width, words: (row) => jobPrefix(frame, row, "name") });

const microsText = (value: CellValue): string =>
  formatDuration(typeof value === "number" && value > 0 ? value * 1e3 : null);

const meanColumn = (hint: string, from: number): DashColumn =>
  numberColumn("mean_us", "mean", hint, microsText, from);

const PULLS_WAIT_HINT = "Total time for which its pulls waited for the last push";

const REQUESTS: TableSpec = {
  rows: "key",
  selectsRanks: true,
  title: "Server requests",
  about: (frame) =>
    `by key, with all digits · pulls of all nodes wait for the last push${noteSuffix(frame)}`,
  columns: () => [
    nameColumn({
      title: "key",
      width: "auto",
      words: (row) => String(row("name")),
      hover: (row) => `Key ${String(row("name"))}`,
    }),
    {
      by: "tensor",
      title: "tensor",
      hint: "By tensor and partition, if the files name them",
      width: "minmax(0, 1.2fr)",
      from: 460,
      cell: (row) => {
        const tensor = String(row("tensor") ?? "").replace(/^byteps\./, "");
        const partition = Number(row("partition"));
        if (tensor === "" && partition < 0) return noValue;
        return tensor === "" ? `partition ${partition}` : `${tensor}:${partition}`;
      },
    },
    numberColumn("server", "server", "By server", countText, 620),
    barColumn("wait_ns", "pulls wait", PULLS_WAIT_HINT, durationText),
    numberColumn("requests", "requests", "Number of answered requests", countText, 400),
    durationColumn("push_ns", "pushes", "Total time of its pushes", 700),
    durationColumn("service_ns", "serving", "Total time of its pulls, without waiting", 780),
    {
      by: "last_share",
      title: "last",
      width: "max-content",
      hint: "The node whose push is last most often, and its mean delay",
      isNumber: true,
      cell: (row) => {
        const share = numberOrNull(row("last_share"));
        if (share === null) return noValue;
        return (
          <span class={share >= LIMITS.straggler_share ? "hta-late-text" : "hta-note"}>
            <small>{`node ${String(row("last_node"))} `}</small>
            {`${formatShare(share)} +${durationText(row("last_lag_ns"))}`}
          </span>
        );
      },
    },
  ],
};

const ROUTINES: TableSpec = {
  title: "MPI routines",
  about: (frame) => `sum over the ranks whose files list routines${noteSuffix(frame)}`,
  columns: (frame) => [
    routineColumn(frame, "minmax(0, 1.3fr)"),
    barColumn("time_s", "time", "Time of all calls, all ranks together", secondsText),
    numberColumn("share_of_time", "of MPI", "Share of all time in MPI", shareText, 400),
    numberColumn("calls", "calls", "Number of calls", countText),
    numberColumn("bytes", "bytes", "Calls times their mean size", sizeText, 460),
    meanColumn("Mean of a call", 560),
    {
      by: "max_s",
      title: "min … max (rank)",
      hint: "Of any rank",
      from: 680,
      isNumber: true,
      cell: (row) => {
        if (!(Number(row("ranks")) > 1)) {
          return <span class="hta-note">{`rank ${String(row("min_rank"))} alone`}</span>;
        }
        const end = (which: string): string =>
          `${secondsText(row(`${which}_s`))} (${String(row(`${which}_rank`))})`;
        return row("max_s") === 0 ? "–" : `${end("min")} … ${end("max")}`;
      },
    },
  ],
};

const MESSAGES: TableSpec = {
  rows: "row",
  title: "Messages by size",
  about: (frame) =>
    `shares of the routine's calls, time and bytes: compare all three${noteSuffix(frame)}`,
  columns: (frame) => [
    routineColumn(frame, "minmax(0, 1.2fr)"),
    {
      by: "size_lo",
      title: "size",
      hint: "Of one message",
      isNumber: true,
      cell: (row) => formatSizeRange(Number(row("size_lo")), Number(row("size_hi"))),
    },
    // Narrow tables keep the shares because they are meant to be compared.
    {
      ...barColumn("time_s", "time", "Time of all calls, all ranks together", secondsText),
      from: 400,
    },
    numberColumn("calls", "calls", "Number of calls", countText, 420),
    numberColumn("bytes", "bytes", "Calls times their mean size", sizeText, 520),
    numberColumn("share_of_calls", "calls %", "Share of the routine's calls", shareText),
    numberColumn("share_of_time", "time %", "Share of the routine's time", shareText),
    numberColumn("share_of_bytes", "bytes %", "Share of the routine's bytes", shareText),
    meanColumn("Mean of a call; for small messages it is waiting, not transfer", 620),
  ],
};

const HOSTS: TableSpec = {
  title: "Hosts",
  selectsRanks: true,
  about: () => "a slow host: each of its ranks waits less than the ranks on other hosts",
  columns: (frame) => [
    nameColumn({
      title: "host",
      width: "minmax(0, 1.2fr)",
      words: (row) => jobPrefix(frame, row, "host"),
    }),
    numberColumn("ranks", "ranks", "Number of ranks that run there", countText),
    barColumn("comm_mean_s", "in MPI", "Mean of its ranks", secondsText),
    numberColumn("comm_min_s", "min", "Minimum of its ranks", secondsText, 420),
    numberColumn("comm_max_s", "max", "Maximum of its ranks", secondsText, 420),
    numberColumn("noncomm_mean_s", "outside", "Mean time outside of MPI", secondsText, 520),
    numberColumn(
      "rss_sum_mib",
      "memory",
      "Sum of its ranks' maximum resident sets",
      (value) => formatBytes(typeof value === "number" ? value * 2 ** 20 : null),
      620,
    ),
    {
      by: "is_slow",
      title: "slow",
      hint: "Whether ranks on other hosts wait for all of its ranks",
      cell: (row) => (row("is_slow") === true ? <span class="hta-late-text">slow</span> : "–"),
    },
  ],
};

const MISSING_HINT = "Ranks that did not enqueue it, or whose dump is not loaded";

const COLLECTIVES: TableSpec = {
  rows: "collective",
  selectsRanks: true,
  title: "Collectives by group and number",
  about: (frame) =>
    `state in each rank's dump; unfinished collectives first, then the latest${noteSuffix(frame)}`,
  columns: () => [
    nameColumn({
      title: "collective",
      width: "minmax(0, max-content)",
      words: (row) => String(row("label")),
      hover: (row) => `${String(row("name"))}, job ${String(row("job"))}`,
    }),
    textColumn("group", "group", "Process group"),
    {
      by: "finished",
      title: "finished",
      hint: "Ranks that finished it, of those whose dumps contain it",
      isNumber: true,
      from: 460,
      cell: (row) => `${countText(row("finished"))} of ${countText(row("ranks"))}`,
    },
    textColumn("waiting", "waiting ranks", "Ranks that enqueued it and did not finish it", {
      from: 460,
    }),
    textColumn("missing", "missing ranks", MISSING_HINT, { late: true }),
    textColumn("sizes", "shapes", "Shapes of its inputs", { from: 620 }),
    {
      ...textColumn("where", "called in", "The innermost frame of the user's code", { from: 760 }),
      width: "1fr",
    },
  ],
};

export const TABLES: Readonly<Record<string, TableSpec>> = {
  kernels: KERNELS,
  operators: OPERATORS,
  byteps_requests: REQUESTS,
  mpi_routine_table: ROUTINES,
  mpi_messages: MESSAGES,
  mpi_hosts: HOSTS,
  flight_collectives: COLLECTIVES,
};
