/** The tables of BytePS's requests and of MPI's routines, message sizes and hosts. */

import { type Child, h } from "../../app/dom";
import { formatBytes, formatDuration, formatShare } from "../../draw/format";
import { barCell, counted, lasted, number, numberOf } from "../number_columns";
import type { ColumnLook, Row, TableLook } from "../table";
import type { PanelFrame, Value } from "../types";
import { CONSISTENT_SHARE } from "./byteps_files";
import { sizeWords } from "./mpi_charts";

/** Profiles print milliseconds: what takes none of them prints as 0. */
function seconds(value: Value): string {
  if (value === 0) return "<1\u2009ms";
  return formatDuration(typeof value === "number" ? value * 1e9 : null);
}

function namedCell(row: Row, text: string, title = ""): Child[] {
  const hint = `${title || text}\nClick selects, Ctrl adds`;
  return [
    h(
      "button",
      { type: "button", class: "hta-name-button", title: hint },
      text || String(row("name")),
    ),
  ];
}

/** A number behind a bar. */
const barred = (
  by: string,
  title: string,
  hint: string,
  words: (value: Value) => string,
): ColumnLook => ({
  by,
  title,
  hint,
  width: "minmax(96px, 1fr)",
  cell: (row, most) => barCell(numberOf(row(by)), most, "communication", words(row(by))),
});

const sized = (value: Value): string => formatBytes(numberOf(value));
/** Small shares to four digits: that of bytes is what one looks for. */
const shared = (value: Value): string => {
  const part = numberOf(value);
  if (part === null || part <= 0 || part >= 0.01) return formatShare(part);
  return `${(part * 100).toPrecision(1)}\u2009%`;
};

const note = (frame: PanelFrame): string => {
  const said = frame.attrs.note;
  return typeof said === "string" && said !== "" ? ` · ${said}` : "";
};

function severalJobs(frame: PanelFrame): boolean {
  return new Set(frame.columns.job ?? []).size > 1;
}

function routineName(row: Row, frame: PanelFrame): string {
  const name = String(row("name"));
  return severalJobs(frame) ? `${String(row("job"))} · ${name}` : name;
}

const routine = (width: string): ColumnLook => ({
  by: "name",
  title: "routine",
  hint: "By name",
  width,
  cell: (row, _most, frame) => namedCell(row, routineName(row, frame)),
});

const mean = (hint: string, from: number): ColumnLook =>
  number(
    "mean_us",
    "mean",
    hint,
    (value) => formatDuration(typeof value === "number" && value > 0 ? value * 1e3 : null),
    from,
  );

const REQUESTS: TableLook = {
  what: "key",
  rows: "key",
  title: "Requests of servers",
  about: (frame) =>
    `by key, to its last digit · who pushes last makes the others' pulls wait${note(frame)}`,
  columns: [
    {
      by: "name",
      title: "key",
      hint: "By key",
      width: "auto",
      cell: (row) => namedCell(row, String(row("name")), `Key ${String(row("name"))}`),
    },
    {
      by: "tensor",
      title: "tensor",
      hint: "By tensor and partition, where the files tell",
      width: "minmax(0, 1.2fr)",
      from: 460,
      cell: (row) => {
        const tensor = String(row("tensor") ?? "").replace(/^byteps\./, "");
        const partition = Number(row("partition"));
        if (tensor === "" && partition < 0) return [h("span", { class: "hta-note" }, "–")];
        return [tensor === "" ? `partition ${partition}` : `${tensor}:${partition}`];
      },
    },
    number("server", "server", "By server", counted, 620),
    barred(
      "wait_ns",
      "pulls wait",
      "How long its pulls waited for the last push, added up",
      lasted,
    ),
    number("requests", "requests", "How many were answered", counted, 400),
    number("push_ns", "pushes", "Time of its pushes, added up", lasted, 700),
    number("service_ns", "serving", "Time of its pulls without waiting, added up", lasted, 780),
    {
      by: "last_share",
      title: "last",
      hint: "The node whose push comes last most often, and how late it is on average",
      width: "auto",
      isNumber: true,
      cell: (row) => {
        const share = numberOf(row("last_share"));
        if (share === null) return [h("span", { class: "hta-note" }, "–")];
        const often = share >= CONSISTENT_SHARE;
        return [
          h(
            "span",
            { class: often ? "hta-late-text" : "hta-note" },
            h("small", {}, `node ${String(row("last_node"))} `),
            `${formatShare(share)} +${lasted(row("last_lag_ns"))}`,
          ),
        ];
      },
    },
  ],
  foot: () => "",
};

const ROUTINES: TableLook = {
  what: "routine",
  title: "MPI routines",
  about: (frame) => `time of all ranks with tables of routines together${note(frame)}`,
  columns: [
    routine("minmax(0, 1.3fr)"),
    barred("time_s", "time", "Time of all calls, all ranks together", seconds),
    number("share_of_time", "of MPI", "Share of all time in MPI", shared, 400),
    number("calls", "calls", "How often it was called", counted),
    number("bytes", "bytes", "Calls times their mean size", sized, 460),
    mean("Mean of a call", 560),
    {
      by: "max_s",
      title: "least … most",
      hint: "Of any rank",
      width: "auto",
      from: 680,
      isNumber: true,
      cell: (row) => [
        Number(row("ranks")) > 1 && row("max_s") === 0
          ? "–"
          : Number(row("ranks")) > 1
            ? `${seconds(row("min_s"))} (${String(row("min_rank"))}) … ${seconds(row("max_s"))} (${String(row("max_rank"))})`
            : h("span", { class: "hta-note" }, `rank ${String(row("min_rank"))} alone`),
      ],
    },
  ],
  foot: () => "",
};

const MESSAGES: TableLook = {
  what: "size",
  rows: "row",
  title: "Messages by size",
  about: (frame) =>
    `shares are of the routine's calls, time and bytes: look at all three${note(frame)}`,
  columns: [
    routine("minmax(0, 1.2fr)"),
    {
      by: "size_lo",
      title: "size",
      hint: "Of one message",
      width: "auto",
      isNumber: true,
      cell: (row) => [sizeWords(Number(row("size_lo")), Number(row("size_hi")))],
    },
    barred("time_s", "time", "Time of all calls, all ranks together", seconds),
    number("calls", "calls", "How often", counted, 420),
    number("bytes", "bytes", "Calls times their mean size", sized, 520),
    number("share_of_calls", "calls %", "Share of the routine's calls", shared),
    number("share_of_time", "time %", "Share of the routine's time", shared),
    number("share_of_bytes", "bytes %", "Share of the routine's bytes", shared),
    mean("Mean of a call: of small messages it is waiting, not transfer", 620),
  ],
  foot: () => "",
};

const HOSTS: TableLook = {
  what: "host",
  title: "Hosts",
  about: () => "a host all of whose ranks wait least is slow as a whole",
  columns: [
    {
      by: "name",
      title: "host",
      hint: "By name",
      width: "minmax(0, 1.2fr)",
      cell: (row, _most, frame) =>
        namedCell(
          row,
          severalJobs(frame)
            ? `${String(row("job"))} · ${String(row("host"))}`
            : String(row("host")),
        ),
    },
    number("ranks", "ranks", "How many ranks run there", counted),
    barred("comm_mean_s", "in MPI", "Mean of its ranks", seconds),
    number("comm_min_s", "least", "Of any of its ranks", seconds, 420),
    number("comm_max_s", "most", "Of any of its ranks", seconds, 420),
    number("noncomm_mean_s", "outside", "Mean time outside of MPI", seconds, 520),
    number(
      "rss_sum_mib",
      "memory",
      "Largest resident sets of its ranks, added up",
      (value) => formatBytes(typeof value === "number" ? value * 2 ** 20 : null),
      620,
    ),
    {
      by: "is_slow",
      title: "slow",
      hint: "Whether the others wait for all of its ranks",
      width: "auto",
      cell: (row) =>
        row("is_slow") === true ? [h("span", { class: "hta-late-text" }, "slow")] : ["–"],
    },
  ],
  foot: () => "",
};

/** Looks of the tables, by panel. */
export const TABLES: Readonly<Record<string, TableLook>> = {
  byteps_requests: REQUESTS,
  mpi_routine_table: ROUTINES,
  mpi_messages: MESSAGES,
  mpi_hosts: HOSTS,
};
