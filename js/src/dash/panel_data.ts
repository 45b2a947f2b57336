/**
 * The numbers of the panels in sight: one question at a time, the newest selection wins, and what
 * has been answered before is not asked again.
 */

import { asError, isAbort } from "../contract";
import type { SelectionJson, Source } from "../contract";
import { WITHIN_MS } from "../data/tile_loader";
import { withoutOwn } from "./catalog";
import type { PanelFrame } from "./types";

export interface PanelState {
  frame: PanelFrame | null;
  /** The frame is of an earlier selection; the new one is on its way. */
  isStale: boolean;
  error: Error | null;
}

interface Entry {
  key: string;
  frame: PanelFrame | null;
  shownKey: string;
  error: Error | null;
}

/** Frames of earlier selections, by panel: undo shows them at once. */
const KEPT = 12;

export class PanelData {
  private readonly entries = new Map<string, Entry>();
  private readonly kept = new Map<string, PanelFrame>();
  private wanted: { selection: SelectionJson; panels: readonly string[] } | null = null;
  private inFlight = false;
  private readonly aborter = new AbortController();

  constructor(
    private readonly source: Source,
    /** Something has changed for these panels. */
    private readonly changed: (panels: readonly string[]) => void,
    signal: AbortSignal,
  ) {
    signal.addEventListener("abort", () => this.aborter.abort(), { once: true });
  }

  get isWaiting(): boolean {
    return this.inFlight;
  }

  state(id: string): PanelState {
    const entry = this.entries.get(id);
    return {
      frame: entry?.frame ?? null,
      isStale: entry !== undefined && entry.error === null && entry.shownKey !== entry.key,
      error: entry?.error ?? null,
    };
  }

  /** These panels are in sight, and this is what they should be of. */
  want(panels: readonly string[], selection: SelectionJson): void {
    this.wanted = { selection, panels };
    const changed: string[] = [];
    for (const id of panels) {
      const key = keyOf(id, selection);
      const entry = this.entries.get(id) ?? { key: "", frame: null, shownKey: "", error: null };
      this.entries.set(id, entry);
      if (entry.key === key) continue;
      entry.key = key;
      entry.error = null;
      const known = this.kept.get(`${id} ${key}`);
      if (known !== undefined) this.put(id, key, known);
      changed.push(id);
    }
    if (changed.length > 0) this.changed(changed);
    this.ask();
  }

  /** Ask again for what has failed. */
  retry(): void {
    for (const entry of this.entries.values()) {
      if (entry.error !== null) entry.error = null;
    }
    this.ask();
  }

  /** The kernel is back, or another one: what failed may be known there. */
  forget(): void {
    this.kept.clear();
    for (const entry of this.entries.values()) entry.key = entry.shownKey = "";
    if (this.wanted !== null) this.want(this.wanted.panels, this.wanted.selection);
  }

  private ask(): void {
    if (this.inFlight || this.wanted === null || this.aborter.signal.aborted) return;
    const { selection, panels } = this.wanted;
    const open = panels.filter((id) => {
      const entry = this.entries.get(id);
      return entry !== undefined && entry.error === null && entry.shownKey !== entry.key;
    });
    if (open.length === 0) return;
    this.inFlight = true;
    const keys = open.map((id) => keyOf(id, selection));
    let told: readonly string[] = open;
    this.source
      // What is left is asked for next, of the selection that is wanted by then.
      .ask("panels", { panels: open, selection, within_ms: WITHIN_MS }, this.aborter.signal)
      .then(
        ({ reply }) => {
          const frames = reply.panels as Record<string, PanelFrame | undefined>;
          const left = new Set((reply.left ?? []) as string[]);
          told = open.filter((id) => !left.has(id));
          open.forEach((id, at) => {
            if (left.has(id)) return;
            const frame = frames[id];
            const key = keys[at]!;
            if (frame === undefined) this.fail(id, key, new Error("No answer for this panel."));
            else this.put(id, key, frame);
          });
        },
        (error: unknown) => {
          if (isAbort(error)) return;
          open.forEach((id, at) => this.fail(id, keys[at]!, asError(error)));
        },
      )
      .finally(() => {
        this.inFlight = false;
        if (this.aborter.signal.aborted) return;
        this.changed(told);
        this.ask();
      });
  }

  /** Numbers of a selection that is no longer wanted are still newer than those shown. */
  private put(id: string, key: string, frame: PanelFrame): void {
    const entry = this.entries.get(id);
    if (entry !== undefined) {
      entry.frame = frame;
      entry.shownKey = key;
    }
    const name = `${id} ${key}`;
    this.kept.delete(name);
    this.kept.set(name, frame);
    const own = [...this.kept.keys()].filter((one) => one.startsWith(`${id} `));
    for (const old of own.slice(0, -KEPT)) this.kept.delete(old);
  }

  private fail(id: string, key: string, error: Error): void {
    const entry = this.entries.get(id);
    if (entry !== undefined && entry.key === key) entry.error = error;
  }
}

function keyOf(id: string, selection: SelectionJson): string {
  return JSON.stringify(withoutOwn(id, selection));
}
