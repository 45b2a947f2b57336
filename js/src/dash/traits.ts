/** What the dashboard's model says, beside what linked views share. */

import { same } from "../app/history";
import { listenTo, type Model } from "../app/shared";
import type { Tables } from "./by_format/rows";
import { PANELS } from "./catalog";
import type { FigureItems } from "./chart_slot";
import type { HeadlineFacts } from "./headline";
import type { Choice } from "./layout";

interface About {
  panels?: string[];
  format?: string;
  /** Panels that would stay empty, by what the files lack. */
  left_out?: Record<string, string[]>;
}

export class Traits {
  constructor(
    private readonly model: Model,
    private readonly signal: AbortSignal,
  ) {}

  /** Are like ranks folded? null where nobody chose. */
  get folded(): boolean | null {
    const folded = this.model.get("folded");
    return typeof folded === "boolean" ? folded : null;
  }

  /** Of the timeline; null for what fits. */
  get height(): number | null {
    return (this.model.get("height") ?? null) as number | null;
  }

  /** Of the heatmap. */
  get metric(): string {
    return (this.model.get("metric") ?? "") as string;
  }

  get figures(): Record<string, FigureItems> {
    return (this.model.get("_figures") ?? {}) as Record<string, FigureItems>;
  }

  get tables(): Tables {
    return (this.model.get("_tables") ?? {}) as Tables;
  }

  get headline(): HeadlineFacts | null {
    return (this.model.get("_headline") ?? null) as HeadlineFacts | null;
  }

  get format(): string {
    return this.about.format ?? "";
  }

  /** The panels that the job's files have something for; null where nobody says. */
  get offered(): string[] | null {
    return this.about.panels ?? null;
  }

  get leftOut(): Record<string, string[]> {
    return this.about.left_out ?? {};
  }

  /** The panels that are to be shown. */
  get choice(): Choice {
    const given = this.model.get("panels");
    return Array.isArray(given)
      ? (given as string[])
      : (this.offered ?? PANELS.map(({ id }) => id));
  }

  onChange(name: string, listener: () => void): void {
    listenTo(this.model, `change:${name}`, listener, this.signal);
  }

  /** Remember what the user chose. */
  keep(name: string, value: unknown): void {
    if (same(this.model.get(name), value)) return;
    this.model.set(name, value);
    this.model.save_changes();
  }

  private get about(): About {
    return this.model.get("_about") ?? {};
  }
}
