/** Two timelines that move together: whoever was touched last leads. */

import type { TimelineApp } from "../app/app";
import type { Model } from "../app/shared";
import type { SelectionJson, SharedState, Span } from "../contract";
import { type Line, partnerView, toCommon, toOwn } from "./maps";

export interface SideView {
  app: TimelineApp;
  model: Model;
  el: HTMLElement;
}

/** Values of one side's state. */
export type Patch = Partial<SharedState>;

export interface CouplingWays {
  line(): Line | null;
  coupled(): boolean;
  rankPairs(): readonly (readonly [number, number])[];
  /** A view has moved. */
  moved(): void;
  /** By hand or by Python, an event was selected on one side. */
  picked(side: 0 | 1, event: readonly [number, number] | null): void;
}

const SAVE_MS = 250;
const SHARED = ["search", "color"] as const;

export class Coupling {
  private leader: 0 | 1 = 0;
  /** While we write: what is heard then is our own. */
  private quiet = false;
  private saveTimer = 0;

  constructor(
    private readonly sides: readonly [SideView, SideView],
    private readonly ways: CouplingWays,
    private readonly signal: AbortSignal,
  ) {
    for (const side of [0, 1] as const) this.watch(side);
    signal.addEventListener("abort", () => clearTimeout(this.saveTimer), { once: true });
  }

  /** Bring the other side to where the leader is: after another alignment, or after decoupling. */
  align(): void {
    this.follow(this.leader);
  }

  /** Show a window of one side; the other follows, coupled or not. */
  goTo(side: 0 | 1, view: Span): void {
    this.leader = side;
    this.write(side, "view", [Math.floor(view[0]), Math.ceil(view[1])]);
    this.sides[side].app.led.showView([Math.floor(view[0]), Math.ceil(view[1])]);
    this.follow(side, true);
  }

  /** Write a shared value of one side without its partner following. */
  write(side: 0 | 1, key: string, value: unknown): void {
    const { model } = this.sides[side];
    this.quiet = true;
    try {
      model.set(key, value);
    } finally {
      this.quiet = false;
    }
    window.clearTimeout(this.saveTimer);
    this.saveTimer = window.setTimeout(() => {
      for (const one of this.sides) one.model.save_changes();
    }, SAVE_MS);
  }

  /** Change both sides in one act; neither leads the other. */
  together(act: () => void): void {
    this.quiet = true;
    try {
      act();
      for (const { app } of this.sides) app.led.showState();
    } finally {
      this.quiet = false;
    }
    this.ways.moved();
  }

  /** Change values of both sides, as one entry of the history of each that differs. */
  put(patches: readonly [Patch, Patch]): void {
    const name = `${Date.now()}/${Math.random()}`;
    this.together(() =>
      this.sides.forEach(({ app }, side) => app.led.put(patches[side as 0 | 1], name)),
    );
  }

  private watch(side: 0 | 1): void {
    const { app, model, el } = this.sides[side];
    const { signal } = this;
    const listen = (key: string, listener: () => void): void => {
      model.on(`change:${key}`, listener);
      signal.addEventListener("abort", () => model.off(`change:${key}`, listener), { once: true });
    };
    const lead = (): void => {
      this.leader = side;
    };
    for (const type of ["pointerdown", "wheel", "keydown"]) {
      el.addEventListener(type, lead, { signal, capture: true, passive: true });
    }
    app.onView(() => {
      if (!this.quiet && this.leader === side) this.follow(side);
      this.ways.moved();
    });
    listen("view", () => {
      if (this.quiet) return;
      this.leader = side;
      this.follow(side);
    });
    listen("selection", () => {
      if (!this.quiet && this.ways.coupled()) this.select(side);
    });
    listen("selected_event", () => {
      if (this.quiet) return;
      const event = model.get("selected_event");
      this.ways.picked(side, Array.isArray(event) ? (event as [number, number]) : null);
    });
    for (const key of SHARED) {
      listen(key, () => {
        if (!this.quiet && this.ways.coupled()) this.write(other(side), key, model.get(key));
      });
    }
  }

  private follow(side: 0 | 1, always = false): void {
    const line = this.ways.line();
    if (line === null || this.quiet || !(always || this.ways.coupled())) return;
    const to = other(side);
    const { app } = this.sides[to];
    const [start, end] = partnerView(line, side, this.sides[side].app.led.view);
    const view: Span = [Math.floor(start), Math.max(Math.ceil(end), Math.floor(start) + 1)];
    this.quiet = true;
    try {
      app.led.showView(view);
    } finally {
      this.quiet = false;
    }
    this.write(to, "view", [...view]);
  }

  /** The same part of the other run: its window by the alignment, its ranks by their pairs. */
  private select(side: 0 | 1): void {
    const line = this.ways.line();
    const given = this.sides[side].model.get("selection") as Partial<SelectionJson> | null;
    const to = other(side);
    if (given === null || line === null) {
      this.write(to, "selection", null);
      return;
    }
    // Single events have partners, which are looked up one by one.
    if (given.ids) return;
    const edge = (time: number | null | undefined): number | null =>
      time === null || time === undefined
        ? null
        : Math.round(toOwn(line.pieces[to], toCommon(line.pieces[side], time)));
    const pairs = this.ways.rankPairs();
    const ranks =
      given.ranks?.flatMap((rank) =>
        pairs.filter((pair) => pair[side] === rank).map((pair) => pair[to]),
      ) ?? null;
    this.write(to, "selection", {
      start_ns: edge(given.start_ns),
      end_ns: edge(given.end_ns),
      ranks,
      tracks: null,
      query: given.query ?? null,
      ids: null,
    });
  }
}

export function other(side: 0 | 1): 0 | 1 {
  return side === 0 ? 1 : 0;
}
