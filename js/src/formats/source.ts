/** Compute a format's panels from tables in the page, and forward other requests. */

import { makeFrame } from "../engine/frames";
import { indicesWhere } from "../expressions/numbers";
import { noteFor, type NoteName } from "../facts/notes";
import { WHOLE_JOB_PANELS, withoutOwnDimensions } from "../facts/panels";
import { FULL_SELECTION } from "../protocol/selection";
import type { PanelFrame, SelectionJson, Source, Requests, Answer } from "../protocol/source";
import {
  blameFrame,
  gradientsFrame,
  requestsFrame,
  serversFrame,
  stagesFrame,
  stragglersFrame,
} from "./byteps";
import { routinesFrame, sizesFrame } from "./mpi";
import { overlapTest, type ColumnTables } from "./shared";

type TableFrameBuilder = (tables: ColumnTables, selection: SelectionJson) => PanelFrame;

interface TableMaker {
  /** The tables that the panel needs. If one of them has too many rows, the kernel must answer. */
  from: readonly string[];
  make: TableFrameBuilder;
}

/** Return a builder that filters a panel's whole frame for the rows that overlap the window. */
function makeRowsInWindow(id: string): TableFrameBuilder {
  return (tables, selection) => {
    const { rows, columns, attrs } = tables[id]!;
    const overlaps = overlapTest(selection);
    const { start_ns: start, end_ns: end } = columns as Record<string, number[] | undefined>;
    const isInWindow = (row: number): boolean =>
      start === undefined || overlaps(start[row]!, end![row]! - start[row]!);
    const rowsInWindow = Array.from(indicesWhere(rows, isInWindow));
    const selected: PanelFrame["columns"] = {};
    for (const [name, values] of Object.entries(columns))
      selected[name] = rowsInWindow.map((row) => values[row]!);
    return { rows: rowsInWindow.length, columns: selected, attrs };
  };
}

/** Make a table that selections do not restrict. `note` is shown if the job lacks the table. */
function wholeTable(id: string, note?: NoteName): TableMaker {
  return { from: [id], make: (tables) => tables[id] ?? makeFrame({}, {}, note && noteFor(note)) };
}

const TABLE_MAKERS: Readonly<Record<string, TableMaker>> = {
  byteps_gradients: { from: ["gradients"], make: gradientsFrame },
  byteps_stages: { from: ["stages"], make: stagesFrame },
  byteps_stragglers: { from: ["requests"], make: stragglersFrame },
  byteps_blame: { from: ["stages"], make: blameFrame },
  byteps_servers: { from: ["requests"], make: serversFrame },
  byteps_requests: { from: ["requests"], make: requestsFrame },
  mpi_routines: { from: ["routines"], make: routinesFrame },
  mpi_routine_table: { from: ["routines"], make: routinesFrame },
  mpi_sizes: { from: ["sizes", "routines"], make: sizesFrame },
  mpi_messages: { from: ["sizes", "routines"], make: sizesFrame },
  byteps_clock: wholeTable("byteps_clock"),
  mpi_ranks: wholeTable("mpi_ranks", "no_mpi"),
  mpi_hosts: wholeTable("mpi_hosts", "no_mpi"),
  flight_hang: wholeTable("flight_hang", "no_flight_dumps"),
  flight_collectives: wholeTable("flight_collectives", "no_flight_dumps"),
  snapshot_peak: wholeTable("snapshot_peak", "no_snapshots"),
  snapshot_segments: wholeTable("snapshot_segments", "no_snapshots"),
  ...Object.fromEntries(
    WHOLE_JOB_PANELS.map((id) => [id, { from: [id], make: makeRowsInWindow(id) }]),
  ),
};

/** Return whether the job has a panel's data, but too much of it for the page. */
function isLarge(tables: ColumnTables, id: string): boolean {
  return TABLE_MAKERS[id]?.from.some((name) => tables[name] === null) === true;
}

/** Return a panel's frame from tables in the page; null if the tables are not sufficient. */
export function frameFromTables(
  tables: ColumnTables,
  id: string,
  selection: SelectionJson | null,
): PanelFrame | null {
  const maker = TABLE_MAKERS[id];
  if (maker === undefined || isLarge(tables, id)) return null;
  if (WHOLE_JOB_PANELS.includes(id) && tables[id] === undefined) return null;
  return maker.make(tables, withoutOwnDimensions(id, { ...FULL_SELECTION, ...selection }));
}

const TOO_LARGE_NOTE = "this job is too large for this panel in a saved page: use a kernel";

/** Answer the panels for which the tables suffice, and ask the source for all others. */
async function askPanels(
  source: Source,
  tables: ColumnTables,
  request: Requests["panels"],
  signal?: AbortSignal,
): Promise<Answer<"panels">> {
  const panels: Record<string, PanelFrame> = {};
  const missing: string[] = [];
  for (const id of request.panels) {
    const frame = frameFromTables(tables, id, request.selection ?? null);
    if (frame !== null) panels[id] = frame;
    else if (isLarge(tables, id) && source.status === "none")
      panels[id] = makeFrame({}, {}, TOO_LARGE_NOTE);
    else missing.push(id);
  }
  if (missing.length === 0) return { reply: { panels }, buffer: null };
  const { reply, buffer } = await source.ask("panels", { ...request, panels: missing }, signal);
  return { reply: { ...reply, panels: { ...reply.panels, ...panels } }, buffer };
}

export function withTables(source: Source, tables: () => ColumnTables): Source {
  return {
    get status() {
      return source.status;
    },
    ask: async (op, request, signal) => {
      if (op !== "panels") return source.ask(op, request, signal);
      const answer = await askPanels(source, tables(), request as Requests["panels"], signal);
      return answer as Answer<typeof op>;
    },
  };
}
