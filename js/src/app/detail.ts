/** The answer of op `event`, checked. */

import type { Brief, Reply } from "../contract";

export interface DetailedEvent extends Brief {
  category: string | null;
  process: string | null;
  /** The track's key. */
  track: string | null;
  depth: number | null;
  stream: number | null;
  step: number | null;
  /** -1 for none. */
  correlation: number | null;
}

export interface Flow {
  kind: string;
  direction: "out" | "in";
  brief: Brief;
  /** ns from the end of the source to the start of the target; negative where they overlap. */
  delay: number | null;
}

/** Durations of the events of this name and category on this rank. */
export interface SameName {
  count: number;
  sum: number;
  mean: number;
  median: number;
  min: number;
  max: number;
  edges: number[];
  counts: number[];
  scale: "linear" | "log";
}

export interface EventDetail {
  event: DetailedEvent;
  /** Innermost first. */
  parents: Brief[];
  args: [key: string, text: string][];
  args_error: string | null;
  flows: Flow[];
  same: SameName | null;
}

export function readDetail(reply: Reply): EventDetail {
  const given = reply.reply as Partial<EventDetail>;
  if (given.event === undefined || given.event === null) {
    throw new Error('the answer to "event" has no event');
  }
  return {
    event: given.event,
    parents: given.parents ?? [],
    args: given.args ?? [],
    args_error: given.args_error ?? null,
    flows: given.flows ?? [],
    same: given.same ?? null,
  };
}

/** Arrows of an event, from where they start to where they end. */
export function arrows(detail: EventDetail): { kind: string; from: Brief; to: Brief }[] {
  return detail.flows.map((flow) =>
    flow.direction === "out"
      ? { kind: flow.kind, from: detail.event, to: flow.brief }
      : { kind: flow.kind, from: flow.brief, to: detail.event },
  );
}

/** What a flow is called from this event's side. */
export function flowLabel(flow: Pick<Flow, "kind" | "direction">): string {
  const into = flow.direction === "in";
  if (flow.kind === "launch") return into ? "Launched by" : "Launches";
  if (flow.kind === "fwdbwd") return into ? "Forward" : "Backward";
  return into ? `From (${flow.kind})` : `To (${flow.kind})`;
}
