/** Which files of BytePS the page holds rows of, and which of them a selection names. */

import type { SelectionJson } from "../../contract";
import type { PanelFrame } from "../types";
import { eachOf, ints, strings, type Tables } from "./rows";

export interface File {
  rank: number;
  job: string;
  format: string;
  worker: number;
  local: number;
  server: number;
  root: boolean;
}

export function filesOf(tables: Tables): Map<number, File> {
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

/** Which ranks of a format count. */
export function chosenFiles(
  tables: Tables,
  selection: SelectionJson,
  format: string,
): Map<number, File> {
  const all = [...filesOf(tables)].filter(([, file]) => file.format === format);
  const own = all.filter(([rank]) => selection.ranks?.includes(rank) === true);
  return new Map(own.length > 0 ? own : all);
}

/** Who is last this often is late by more than chance: `formats/byteps/workers.py` in Python. */
export const CONSISTENT_SHARE = 0.8;
export const NO_WORKERS = "no BytePS worker traces (comm.json) among what was loaded";
export const NO_SERVERS = "no BytePS server profiles (server_profile.json) among what was loaded";

/** What a whole table says of itself; nothing where a window leaves other rows. */
export function noteOf(table: PanelFrame, rows: number): Record<string, unknown> {
  if (typeof table.attrs.note === "string") return { note: table.attrs.note };
  return rows === 0 ? { note: "no events match" } : {};
}

/** The ranks of the set that a row stands for. */
export function ranksOf(frame: PanelFrame, row: number): number[] {
  const told = frame.columns.ranks?.[row];
  return typeof told === "string" && told !== "" ? told.split(",").map(Number) : [];
}
