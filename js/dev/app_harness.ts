/** The whole timeline on a page without a kernel; `globalThis.app` is for scripts and consoles. */

import type { Model } from "../src/connection/store";
import type { Scene, Source, ThemeName } from "../src/protocol/source";
import { createStage } from "../src/stage/stage";
import { TimelineApp } from "../src/timeline/view";
import { AppSource } from "./app_source";
import { BridgeSource } from "./bridge_source";
import { fakeJob } from "./fake_job";
import "../src/entries/timeline.css";

/** A model of plain values that tells its listeners as a widget manager does. */
export class LooseModel implements Model {
  saves = 0;
  private readonly listeners = new Map<string, Set<() => void>>();

  constructor(readonly values: Record<string, unknown>) {}

  get(key: string): unknown {
    return this.values[key];
  }

  set(key: string, value: unknown): void {
    if (JSON.stringify(this.values[key]) === JSON.stringify(value)) return;
    this.values[key] = value;
    for (const listener of this.listeners.get(`change:${key}`) ?? []) listener();
  }

  on(event: string, listener: () => void): void {
    const set = this.listeners.get(event) ?? new Set();
    set.add(listener);
    this.listeners.set(event, set);
  }

  off(event: string, listener: () => void): void {
    this.listeners.get(event)?.delete(listener);
  }

  save_changes(): void {
    this.saves += 1;
  }

  get listenerCount(): number {
    return [...this.listeners.values()].reduce((sum, set) => sum + set.size, 0);
  }
}

export function freshState(): LooseModel {
  return new LooseModel({
    view: null,
    selection: null,
    selected_event: null,
    search: "",
    color: "kind",
    pinned: [],
    ranks_from: "",
    scope: "selection",
    _history: { past: [], future: [] },
  });
}

/** Problems as a real load reports them. */
export function withProblems(scene: Scene): Scene {
  const problems = [
    {
      kind: "unpaired",
      count: 39024,
      detail: "Flow ends without a start. Kept; no arrow is drawn.",
      rank: null,
      file: null,
    },
    {
      kind: "truncated",
      count: 1,
      detail: "The file ends early at 440 ms; 14 348 events kept.",
      rank: 4,
      file: "runs/job/rank-4.json.gz",
    },
    {
      kind: "rounding",
      count: 212,
      detail: "Events overlap by less than the files' own time resolution: nested, not spilled.",
      rank: 2,
      file: "runs/job/rank-2.json.gz",
    },
  ];
  return { ...scene, truth: { level: "warn", text: "3 problems: 1 file ends early", problems } };
}

/** The job of this page: made up, or from the engine behind `?bridge=URL`. */
async function open(query: URLSearchParams): Promise<{ scene: Scene; source: Source }> {
  const bridge = query.get("bridge");
  if (bridge !== null) {
    const source = new BridgeSource(bridge);
    return { scene: await source.scene(), source };
  }
  const number = (name: string, other: number): number => Number(query.get(name) ?? other);
  const job = fakeJob(number("ranks", 8), number("steps", 3), number("dense", 1));
  const events = job.scene.events.toLocaleString("en").replaceAll(",", "\u202f");
  job.scene.title = "ddp_8rank";
  job.scene.truth = {
    level: "ok",
    text: `exact: ${events} events, 0 dropped · clocks ±3 ns`,
    problems: [],
  };
  if (query.has("problems")) job.scene = withProblems(job.scene);
  return { scene: job.scene, source: new AppSource(job) };
}

if (document.body.dataset.harness === "app") {
  const query = new URLSearchParams(location.search);
  const { scene, source } = await open(query);
  const theme = (query.get("theme") ?? "light") as ThemeName;
  document.body.dataset.jpThemeLight = String(theme === "light");
  document.body.style.cssText = `margin:0;background:${theme === "light" ? "#eee" : "#0b0e13"}`;
  const box = document.createElement("div");
  box.style.cssText = `width:${query.get("width") ?? "1100"}px`;
  document.body.append(box);
  const state = freshState();
  const gone = new AbortController();
  const app = new TimelineApp(box, {
    scene,
    source,
    state,
    height: Number(query.get("height") ?? 510),
    signal: gone.signal,
    makeStage: createStage,
  });
  Object.assign(globalThis, { app, source, state, scene, gone });
  document.body.dataset.ready = "1";
}
