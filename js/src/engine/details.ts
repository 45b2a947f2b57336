/** Details of an event: arguments, enclosing events, flows, and the calls that launched it. */

import { LIMITS } from "../facts/limits";
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
import { notEmbeddedMessage } from "./document";
import type { RankData, RankOverview } from "./overview";
import type { ArgsReader, RankTrace, EventTable } from "./rank";
import { durationFigures } from "./search";

/** Fields that are known only for rows of `events`, on ranks with individual events. */
const UNKNOWN_FIELDS = { stream: null, step: null, correlation: null };

export async function eventDetails(
  rank: RankTrace,
  rows: EventTable,
  row: number,
  args: ArgsReader,
): Promise<EventDetail> {
  const isEvent = rows.table === "events";
  const displayed = await readArgs(args, rows.table, row);
  return {
    event: { ...rank.brief(rows, row), ...locationOf(rank, rows, row) },
    parents: isEvent ? enclosingEvents(rank, row) : [],
    args: displayed.pairs,
    args_error: displayed.error,
    flows: isEvent ? flowsOf(rank, row) : [],
    launched_by: isEvent ? await launchOf(rank, row, args) : null,
    kernels: isEvent ? launchedKernels(rank, row) : null,
    same: durationFigures(rows.dur.filter((_, index) => rows.type[index] === rows.type[row])),
  };
}

/** Answer `event` with the known fields of a long event, for a rank embedded as an overview. */
export function overviewDetails(rank: RankOverview, table: TableName, id: number): EventDetail {
  const event = rank.findEvent(table, id);
  if (event === null) throw new Error(notEmbeddedMessage(rank.number));
  const { brief, category } = event;
  return {
    event: { ...brief, ...laneLocation(rank, brief.lane, category), ...UNKNOWN_FIELDS },
    parents: [],
    args: [],
    args_error: notEmbeddedMessage(rank.number),
    flows: [],
    launched_by: null,
    kernels: null,
    same: null,
  };
}

function locationOf(
  rank: RankTrace,
  rows: EventTable,
  row: number,
): Omit<DetailedEvent, keyof Brief> {
  const [, category] = rank.typeOf(rows, row);
  const location = laneLocation(rank, rows.lane[row]!, category);
  if (rows.table !== "events") return { ...location, ...UNKNOWN_FIELDS };
  return {
    ...location,
    stream: rank.streams()[row]!,
    step: rank.steps()[row]!,
    correlation: rank.correlations()[row]!,
  };
}

function laneLocation(rank: RankData, lane: number, category: number) {
  const track = rank.trackAt(lane);
  return {
    category: rank.names.category(category),
    process: track?.process ?? null,
    track: track?.key ?? null,
    depth: track === null ? null : lane - track.lane0,
  };
}

/** Return the enclosing events, innermost first. */
function enclosingEvents(rank: RankTrace, row: number): Brief[] {
  const parents = rank.parents();
  return chainFrom(parents[row]!, parents).map((ancestor) => rank.brief(rank.events, ancestor));
}

/** Return the indices of an item and its ancestors, innermost first; empty for -1. */
function chainFrom(first: number, parents: Int32Array): number[] {
  const chain: number[] = [];
  for (let index = first; index >= 0; index = parents[index]!) chain.push(index);
  return chain;
}

/** Return the call that launched device work, and the events around the call; null if unknown. */
async function launchOf(
  rank: RankTrace,
  row: number,
  args: ArgsReader,
): Promise<LaunchedBy | null> {
  const call = rank.launches()[row]!;
  if (call < 0) return null;
  const { row: operatorRows, parent: outer, ofWork } = rank.operators();
  const operators = chainFrom(ofWork[row]!, outer).map((operator) =>
    rank.brief(rank.events, operatorRows[operator]!),
  );
  const isModule = ({ name }: Brief): boolean => name.startsWith("nn.Module: ");
  const isFrame = ({ id }: Brief): boolean =>
    rank.names.category(rank.typeOf(rank.events, id)[1]) === "python_function";
  const parents = enclosingEvents(rank, call);
  return {
    operators,
    modules: parents.filter(isModule),
    frames: parents.filter((parent) => isFrame(parent) && !isModule(parent)),
    shapes: await inputShapes(operators[0], args),
    forward: forwardOperator(rank, operators),
  };
}

/** Return the input shapes of an operator as text; "" if they are unknown. */
async function inputShapes(operator: Brief | undefined, args: ArgsReader): Promise<string> {
  if (operator === undefined) return "";
  const { pairs } = await readArgs(args, "events", operator.id);
  return pairs.find(([key]) => key === "Input Dims" || key === "Input dims")?.[1] ?? "";
}

function forwardOperator(rank: RankTrace, operators: readonly Brief[]): Brief | null {
  const { kind, source, target } = rank.flows();
  const fwdbwd = rank.header.flow_kinds.indexOf("fwdbwd");
  const requested = new Set(operators.map(({ id }) => id));
  const flowIndex = target.findIndex((row, flow) => kind[flow] === fwdbwd && requested.has(row));
  return flowIndex < 0 ? null : rank.brief(rank.events, source[flowIndex]!);
}

function launchedKernels(rank: RankTrace, row: number): LaunchedKernels | null {
  const { start, dur } = rank.events;
  const calls = rank.launches();
  const ids = launchedRows(rank, row);
  if (ids.length === 0) return null;
  return {
    count: ids.length,
    dur: ids.reduce((sum, id) => sum + dur[id]!, 0),
    delay: median(ids.map((id) => start[id]! - start[calls[id]!]!)),
    ids: ids.length <= LIMITS.launch_ids ? ids : null,
  };
}

function launchedRows(rank: RankTrace, row: number): number[] {
  const { start, dur, lane } = rank.events;
  const track = rank.trackAt(lane[row]!);
  if (track === null) return [];
  const end = start[row]! + dur[row]!;
  const last = track.lane0 + track.lanes;
  const ids: number[] = [];
  rank.launches().forEach((call, index) => {
    const isWithin =
      call >= 0 &&
      lane[call]! >= track.lane0 &&
      lane[call]! < last &&
      start[call]! >= start[row]! &&
      start[call]! + dur[call]! <= end;
    if (isWithin) ids.push(index);
  });
  return ids;
}

export function launchesReply(rank: RankTrace, row: number): Launches {
  const call = rank.launches()[row]!;
  const ids = launchedRows(rank, row);
  return {
    call: call < 0 ? null : rank.brief(rank.events, call),
    kernels: ids.length > LIMITS.launch_arrows ? [] : ids.map((id) => rank.brief(rank.events, id)),
    count: ids.length,
  };
}

async function readArgs(
  args: ArgsReader,
  table: TableName,
  row: number,
): Promise<{ pairs: [string, string][]; error: string | null }> {
  if (args.missing !== null) return { pairs: [], error: args.missing };
  try {
    return { pairs: await args.displayPairs(table, row), error: null };
  } catch (error) {
    return { pairs: [], error: error instanceof Error ? error.message : String(error) };
  }
}

function flowsOf(rank: RankTrace, row: number): Flow[] {
  const { kind, source, target } = rank.flows();
  const { start, dur } = rank.events;
  const result: Flow[] = [];
  const collect = (direction: "out" | "in", rowEnds: Int32Array, otherEnds: Int32Array): void => {
    for (let flow = rowEnds.indexOf(row); flow >= 0; flow = rowEnds.indexOf(row, flow + 1)) {
      result.push({
        kind: rank.header.flow_kinds[kind[flow]!] ?? "",
        direction,
        brief: rank.brief(rank.events, otherEnds[flow]!),
        delay: start[target[flow]!]! - (start[source[flow]!]! + dur[source[flow]!]!),
      });
    }
  };
  collect("out", source, target);
  collect("in", target, source);
  return result.sort((a, b) => a.delay - b.delay || a.brief.id - b.brief.id);
}
