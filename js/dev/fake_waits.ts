/** Who waits for whom in a made-up job: the n-th communication of every rank is one collective. */

import type { Reply } from "../src/protocol/source";
import type { FakeEvent, FakeJob } from "./fake_job";
import type { FakeSource } from "./fake_source";

interface Entry {
  rank: number;
  event: FakeEvent;
  wait: number;
  late: number;
  imposed: number;
}

/** Add lanes of waits and late arrivals to the scene, and answer what is asked of them. */
export function addWaits(job: FakeJob, source: FakeSource): Entry[][] {
  const calls = entriesOf(job);
  const { scene } = job;
  for (const [at, { rank, summary, tracks }] of scene.ranks.entries()) {
    const own = calls.map((call) => call[at]!);
    const pieces = {
      wait: own.map(({ event, wait }) => ({ ...event, dur: wait })),
      late: own.map(({ event, late }) => ({ ...event, start: event.start - late, dur: late })),
    };
    for (const row of [
      ...summary.filter(({ role }) => role === "comm"),
      ...tracks.filter(({ communication }) => communication),
    ]) {
      for (const role of ["wait", "late"] as const) {
        const events = pieces[role].filter(({ dur }) => dur > 0);
        const lane = { lane: scene.lanes, rank, events, slices: true };
        row[role] = scene.lanes;
        scene.lanes += 1;
        job.lanes.push(lane);
        source.adopt(lane);
      }
    }
  }
  const ask = source.ask.bind(source);
  source.ask = async (op, request, signal): Promise<Reply> => {
    if (op !== "lateness") return ask(op, request, signal);
    source.asked.push({ op, request });
    await Promise.resolve();
    const { start, end } = request as { start: number; end: number };
    return { reply: latenessOf(scene.ranks.length, calls, start, end), buffer: null };
  };
  return calls;
}

function entriesOf({ scene, lanes }: FakeJob): Entry[][] {
  const events = scene.ranks.map(
    ({ summary }) =>
      lanes.find(({ lane }) => lane === summary.find(({ role }) => role === "comm")?.lane)!.events,
  );
  return events[0]!.map((_, call) => {
    const starts = events.map((own) => own[call]!.start);
    const last = Math.max(...starts);
    const others = starts.filter((start) => start !== last).sort((a, b) => a - b);
    const median = Math.floor(
      (others[(others.length - 1) >> 1]! + others[others.length >> 1]!) / 2,
    );
    const imposed = starts.reduce((sum, start) => sum + last - start, 0);
    return events.map((own, at) => {
      const event = own[call]!;
      const isLast = event.start === last;
      const { rank } = scene.ranks[at]!;
      const wait = last - event.start;
      return { rank, event, wait, late: isLast ? last - median : 0, imposed: isLast ? imposed : 0 };
    });
  });
}

function latenessOf(
  ranks: number,
  calls: readonly Entry[][],
  start: number,
  end: number,
): Record<string, unknown> {
  const figures = Array.from({ length: ranks }, (_, at) => {
    const inside = calls
      .map((call) => call[at]!)
      .filter(({ event }) => event.start < end && event.start + event.dur > start);
    const wait = inside.reduce((sum, { event, wait: ns }) => {
      return sum + Math.max(0, Math.min(event.start + ns, end) - Math.max(event.start, start));
    }, 0);
    const last = inside.filter(({ late }) => late > 0).length;
    const imposed = inside.reduce((sum, one) => sum + one.imposed, 0);
    return { collectives: inside.length, last, wait, exposed_wait: wait / 2, imposed };
  });
  const column = (name: "collectives" | "last" | "wait" | "exposed_wait" | "imposed"): number[] =>
    figures.map((one) => one[name]);
  const late = figures.flatMap(({ collectives, last, imposed }, rank) =>
    collectives >= 4 && 2 * last > collectives && imposed >= 0.02 * (end - start) * (ranks - 1)
      ? [rank]
      : [],
  );
  return {
    ranks: figures.map((_, rank) => rank),
    collectives: column("collectives"),
    last: column("last"),
    wait: column("wait"),
    exposed_wait: column("exposed_wait"),
    imposed: column("imposed"),
    // One rank alone is late here.
    wait_for_late: column("wait"),
    late,
    note: "",
  };
}
