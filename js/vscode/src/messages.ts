/** Messages between the extension and its page, in addition to frames for Python. */

export type Action = "start" | "install" | "choose";

/** A message shown instead of a view, with buttons for `actions` and for trying again. */
export interface HostProblem {
  message: string;
  path?: string;
  remedy?: string;
  /** Set if nothing is wrong, but the user must start loading. */
  load?: string;
  actions?: Action[];
}

/** What a page shows, kept when the window is reloaded. */
export interface OpenTraceRequest {
  view: "dashboard" | "diff";
  paths: string[];
}

export type ToPage =
  /** A new Python process was started. */
  | { type: "started" }
  | { type: "frame"; frame: ArrayBuffer }
  | { type: "cancel" }
  | { type: "problem"; problem: HostProblem }
  /** Python has ended. */
  | { type: "ended"; problem: HostProblem }
  | { type: "colors"; colors: string };

export type FromPage =
  | { type: "ready" }
  | { type: "frame"; frame: ArrayBuffer }
  /** Null if loading has ended. */
  | { type: "loading"; text: string | null }
  | { type: "action"; action: Action }
  /** A line of a source file to show. Paths in traces may be relative to an unknown folder. */
  | { type: "source"; path: string; line: number }
  /** A file to save with a dialog: the path of a file from Python, or content from the page. */
  | { type: "save"; name: string; file: string | ArrayBuffer };
