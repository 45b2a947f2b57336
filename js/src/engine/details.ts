/** Details of one event: arguments, enclosing events, flows, and the calls that launched work. */

import type {
  Brief,
  LaunchedBy,
  LaunchedKernels,
  Launches,
  TableName,
  EventDetail,
  Flow,
  DetailedEvent,
} from "../protocol/source";
import { median } from "../expressions/numbers";
import type { Names } from "./columns";
import { notEmbedded } from "./document";
import type { Overview } from "./overview";
import type { Args, Rank, Rows } from "./rank";
import { durationFigures } from "./search";

/** Fields of events on the device or in steps that others lack. */
const NOT_STATED = { stream: null, step: null, correlation: null };

/** Answer `event`. */
export async function details(
  rank: Rank,
  rows: Rows,
  row: number,
  names: Names,
  args: Args,
): Promise<EventDetail> {
  const isEvent = rows.table === "events";
  const shown = await argsOf(args, rows.table, row);
  return {
    event: { ...rank.brief(rows, row), ...place(rank, rows, row, names) },
    parents: isEvent ? parents(rank, row) : [],
    args: shown.pairs,
    args_error: shown.error,
    flows: isEvent ? flows(rank, row) : [],
    launched_by: isEvent ? await launchedBy(rank, row, names, args) : null,
    kernels: isEvent ? kernels(rank, row) : null,
    same: durationFigures(sameName(rows, row)),
  };
}

/** Reply to `event` for a rank embedded as an overview: the known fields of a long event. */
export function overviewDetails(
  rank: Overview,
  table: TableName,
  id: number,
  names: Names,
): EventDetail {
  const found = rank.find(table, id);
  if (found === null) throw new Error(notEmbedded(rank.number));
  const { brief, category } = found;
  const track = rank.header.tracks.find(
    ({ lane0, lanes }) => brief.lane >= lane0 && brief.lane < lane0 + lanes,
  );
  return {
    event: {
      ...brief,
      category: names.category(category),
      process: track?.process ?? null,
      track: track?.key ?? null,
      depth: track === undefined ? null : brief.lane - track.lane0,
      ...NOT_STATED,
    },
    parents: [],
    args: [],
    args_error: notEmbedded(rank.number),
    flows: [],
    launched_by: null,
    kernels: null,
    same: null,
  };
}

function place(
  rank: Rank,
  rows: Rows,
  row: number,
  names: Names,
): Omit<DetailedEvent, keyof Brief> {
  const track = rank.trackAt(rows.lane[row]!);
  const known = {
    category: names.category(rank.typeOf(rows, row)[1]),
    process: track?.process ?? null,
    track: track?.key ?? null,
    depth: track === null ? null : rows.lane[row]! - track.lane0,
  };
  if (rows.table !== "events") return { ...known, ...NOT_STATED };
  return {
    ...known,
    stream: rank.streams()[row]!,
    step: rank.steps()[row]!,
    correlation: rank.correlations()[row]!,
  };
}

/** Enclosing events, innermost first. */
function parents(rank: Rank, row: number): Brief[] {
  const above = rank.parents();
  const out: Brief[] = [];
  for (let at = above[row]!; at >= 0; at = above[at]!) out.push(rank.brief(rank.events, at));
  return out;
}

async function launchedBy(
  rank: Rank,
  row: number,
  names: Names,
  args: Args,
): Promise<LaunchedBy | null> {
  const call = rank.launches()[row]!;
  if (call < 0) return null;
  const { row: rows, above: outer, ofWork } = rank.operators();
  const operators: Brief[] = [];
  for (let at = ofWork[row]!; at >= 0; at = outer[at]!) {
    operators.push(rank.brief(rank.events, rows[at]!));
  }
  const modules: Brief[] = [];
  const frames: Brief[] = [];
  for (const above of parents(rank, call)) {
    const category = names.category(rank.typeOf(rank.events, above.id)[1]);
    if (above.name.startsWith("nn.Module: ")) modules.push(above);
    else if (category === "python_function") frames.push(above);
  }
  const [innermost] = operators;
  const shown = innermost === undefined ? [] : (await argsOf(args, "events", innermost.id)).pairs;
  const shapes = shown.find(([key]) => key === "Input Dims" || key === "Input dims")?.[1] ?? "";
  return { operators, modules, frames, shapes, forward: forwardOf(rank, operators) };
}

function forwardOf(rank: Rank, operators: readonly Brief[]): Brief | null {
  const { kind, source, target } = rank.flows();
  const fwdbwd = rank.header.flow_kinds.indexOf("fwdbwd");
  const wanted = new Set(operators.map(({ id }) => id));
  const at = target.findIndex((row, flow) => kind[flow] === fwdbwd && wanted.has(row));
  return at < 0 ? null : rank.brief(rank.events, source[at]!);
}

/** Same as `MOST_SELECTED` of the kernel. */
const MOST_SELECTED = 10_000;

function kernels(rank: Rank, row: number): LaunchedKernels | null {
  const { start, dur } = rank.events;
  const calls = rank.launches();
  const ids = launched(rank, row);
  if (ids.length === 0) return null;
  return {
    count: ids.length,
    dur: ids.reduce((sum, at) => sum + dur[at]!, 0),
    delay: median(ids.map((at) => start[at]! - start[calls[at]!]!)),
    ids: ids.length <= MOST_SELECTED ? ids : null,
  };
}

/** Device events that calls launch during a host event on its thread. */
function launched(rank: Rank, row: number): number[] {
  const { start, dur, lane } = rank.events;
  const track = rank.trackAt(lane[row]!);
  if (track === null) return [];
  const end = start[row]! + dur[row]!;
  const last = track.lane0 + track.lanes;
  const ids: number[] = [];
  rank.launches().forEach((call, at) => {
    const isWithin =
      call >= 0 &&
      lane[call]! >= track.lane0 &&
      lane[call]! < last &&
      start[call]! >= start[row]! &&
      start[call]! + dur[call]! <= end;
    if (isWithin) ids.push(at);
  });
  return ids;
}

/** Same as `MOST_ARROWS` of the kernel. */
const MOST_ARROWS = 20;

/** Answer `launches`. */
export function launches(rank: Rank, row: number): Launches {
  const call = rank.launches()[row]!;
  const ids = launched(rank, row);
  return {
    call: call < 0 ? null : rank.brief(rank.events, call),
    kernels: ids.length > MOST_ARROWS ? [] : ids.map((at) => rank.brief(rank.events, at)),
    count: ids.length,
  };
}

async function argsOf(
  args: Args,
  table: TableName,
  row: number,
): Promise<{ pairs: [string, string][]; error: string | null }> {
  if (args.missing !== null) return { pairs: [], error: args.missing };
  try {
    return { pairs: await args.display(table, row), error: null };
  } catch (error) {
    return { pairs: [], error: error instanceof Error ? error.message : String(error) };
  }
}

function flows(rank: Rank, row: number): Flow[] {
  const { kind, source, target } = rank.flows();
  const { start, dur } = rank.events;
  const found: Flow[] = [];
  const look = (direction: "out" | "in", here: Int32Array, there: Int32Array): void => {
    for (let at = here.indexOf(row); at >= 0; at = here.indexOf(row, at + 1)) {
      found.push({
        kind: rank.header.flow_kinds[kind[at]!] ?? "",
        direction,
        brief: rank.brief(rank.events, there[at]!),
        delay: start[target[at]!]! - (start[source[at]!]! + dur[source[at]!]!),
      });
    }
  };
  look("out", source, target);
  look("in", target, source);
  return found.sort((a, b) => a.delay - b.delay || a.brief.id - b.brief.id);
}

/** Durations of the events of this name and category. */
function sameName({ type, dur }: Rows, row: number): Float64Array {
  const wanted = type[row]!;
  return dur.filter((_, at) => type[at] === wanted);
}
