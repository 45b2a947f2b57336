/** Answer panels of a format from the tables in the page; pass other requests on. */

import { OF_JOB, withoutOwn } from "../facts/panels";
import { EVERYTHING } from "../protocol/selection";
import type {
  PanelFrame,
  SelectionJson,
  Source,
  Requests,
  Answer,
  Operation,
} from "../protocol/source";
import { blame, gradients, requestsByKey, servers, stages, stragglers } from "./byteps";
import { routines, sizes, whole } from "./mpi";
import { overlapping, type Tables } from "./shared";

type Make = (tables: Tables, selection: SelectionJson) => PanelFrame;

interface Maker {
  /** The tables that it needs; if one has too many rows, the kernel has to reply. */
  from: readonly string[];
  make: Make;
}

/** The rows of a panel's whole frame that overlap the window. */
function rowsInWindow(id: string): Make {
  return (tables, selection) => {
    const { rows, columns, attrs } = tables[id]!;
    const overlaps = overlapping(selection);
    const { start_ns: start, end_ns: end } = columns as Record<string, number[] | undefined>;
    const kept = Array.from({ length: rows }, (_, at) => at).filter(
      (at) => start === undefined || overlaps(start[at]!, end![at]! - start[at]!),
    );
    const taken: PanelFrame["columns"] = {};
    for (const [name, of] of Object.entries(columns)) taken[name] = kept.map((at) => of[at]!);
    return { rows: kept.length, columns: taken, attrs };
  };
}

const MAKERS: Readonly<Record<string, Maker>> = {
  byteps_gradients: { from: ["gradients"], make: gradients },
  byteps_stages: { from: ["stages"], make: stages },
  byteps_stragglers: { from: ["requests"], make: stragglers },
  byteps_blame: { from: ["stages"], make: blame },
  byteps_servers: { from: ["requests"], make: servers },
  byteps_requests: { from: ["requests"], make: requestsByKey },
  mpi_routines: { from: ["routines"], make: routines },
  mpi_routine_table: { from: ["routines"], make: routines },
  mpi_sizes: { from: ["sizes", "routines"], make: sizes },
  mpi_messages: { from: ["sizes", "routines"], make: sizes },
  ...Object.fromEntries(
    ["byteps_clock", "mpi_ranks", "mpi_hosts"].map((id) => [
      id,
      { from: [id], make: (tables: Tables) => whole(tables, id) },
    ]),
  ),
  ...Object.fromEntries(OF_JOB.map((id) => [id, { from: [id], make: rowsInWindow(id) }])),
};

/** Whether the job has the panel's data, but too much for the page. */
function isLarge(tables: Tables, id: string): boolean {
  return MAKERS[id]?.from.some((name) => tables[name] === null) === true;
}

/** Frame of a panel from the page's own tables; null if they do not suffice. */
export function frameFromTables(
  tables: Tables,
  id: string,
  selection: SelectionJson | null,
): PanelFrame | null {
  const maker = MAKERS[id];
  if (maker === undefined || isLarge(tables, id)) return null;
  if (OF_JOB.includes(id) && tables[id] === undefined) return null;
  return maker.make(tables, withoutOwn(id, { ...EVERYTHING, ...selection }));
}

const TOO_LARGE = "this is too much for a saved page of this job: a kernel can count it";

export function withTables(source: Source, tables: () => Tables): Source {
  const frames = async (
    request: Requests["panels"],
    signal?: AbortSignal,
  ): Promise<Answer<"panels">> => {
    const panels: Record<string, PanelFrame> = {};
    const rest: string[] = [];
    const { panels: ids, selection = null } = request;
    for (const id of ids) {
      const frame = frameFromTables(tables(), id, selection);
      if (frame === null && isLarge(tables(), id) && source.status === "none") {
        panels[id] = { rows: 0, columns: {}, attrs: { note: TOO_LARGE } };
      } else if (frame === null) rest.push(id);
      else panels[id] = frame;
    }
    if (rest.length === 0) return { reply: { panels }, buffer: null };
    const { reply, buffer } = await source.ask("panels", { ...request, panels: rest }, signal);
    return { reply: { ...reply, panels: { ...reply.panels, ...panels } }, buffer };
  };
  return {
    get status() {
      return source.status;
    },
    ask: async <Op extends Operation>(
      op: Op,
      request: Requests[Op],
      signal?: AbortSignal,
    ): Promise<Answer<Op>> =>
      op === "panels"
        ? ((await frames(request as Requests["panels"], signal)) as Answer<Op>)
        : source.ask(op, request, signal),
  };
}
