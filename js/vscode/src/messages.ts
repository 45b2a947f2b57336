/** Messages between the extension and its page, in addition to frames for Python. */

export type Action = "start" | "install" | "choose";

/** A card instead of a view; `actions` besides trying again. */
export interface Problem {
  message: string;
  path?: string;
  remedy?: string;
  /** Nothing is wrong: this is on the button that starts. */
  load?: string;
  actions?: Action[];
}

/** The content of a page, kept when a window is reloaded. */
export interface OpenRequest {
  view: "dashboard" | "diff";
  paths: string[];
}

export type ToPage =
  /** A new Python was started. */
  | { type: "started" }
  | { type: "frame"; frame: ArrayBuffer }
  | { type: "cancel" }
  | { type: "problem"; problem: Problem }
  /** Python is gone. */
  | { type: "ended"; problem: Problem }
  | { type: "colors"; colors: string };

export type FromPage =
  | { type: "ready" }
  | { type: "frame"; frame: ArrayBuffer }
  /** Null: nothing is being loaded any more. */
  | { type: "loading"; text: string | null }
  | { type: "action"; action: Action }
  /** A file to save by a dialog: one that Python wrote, or the page's own. */
  | { type: "save"; name: string; file: string | ArrayBuffer };
