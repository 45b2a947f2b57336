/** The key bindings, as used by the help sheet, the tooltips and the key handler. */

interface Binding<Name = string> {
  command: Name;
  /** Position on the keyboard: `KeyboardEvent.code`. */
  code?: string;
  /** Character: `KeyboardEvent.key` in lower case. */
  key?: string;
  ctrl?: boolean;
  /** Undefined if the binding applies both with and without Shift. */
  shift?: boolean;
}

/** Positions take precedence over characters. On AZERTY, the key that zooms in is labeled Z. */
const BINDINGS = [
  { command: "zoom-in", code: "KeyW" },
  { command: "zoom-out", code: "KeyS" },
  { command: "pan-left", code: "KeyA" },
  { command: "pan-right", code: "KeyD" },
  { command: "rows-up", key: "arrowup" },
  { command: "rows-down", key: "arrowdown" },
  { command: "previous", key: "arrowleft" },
  { command: "next", key: "arrowright" },
  { command: "previous-event", key: "," },
  { command: "next-event", key: "." },
  { command: "full-window", key: "f", shift: true },
  { command: "zoom-selection", key: "f" },
  { command: "fit", key: "z" },
  { command: "fit", key: "0" },
  { command: "fit", code: "Digit0", shift: false },
  { command: "undo", key: "backspace" },
  { command: "undo", key: "z", ctrl: true, shift: false },
  { command: "undo", key: "b" },
  { command: "redo", key: "z", ctrl: true, shift: true },
  { command: "redo", key: "y", ctrl: true },
  { command: "mark", key: "m", shift: false },
  { command: "mark-keep", key: "m", shift: true },
  { command: "unmark", key: "delete" },
  { command: "select-window", key: "r" },
  { command: "select-all", key: "a", ctrl: true, shift: false },
  { command: "flow-back", key: "[" },
  { command: "flow-forward", key: "]" },
  { command: "search", key: "/" },
  { command: "hit-previous", key: "enter", shift: true },
  { command: "hit-next", key: "enter" },
  { command: "pin", key: "p" },
  { command: "color", key: "c" },
  { command: "open-all", key: "g" },
  { command: "fold-group", key: "u", shift: true },
  { command: "fold", key: "u" },
  { command: "roomy", key: "e", shift: false },
  { command: "stacks", key: "e", shift: true },
  { command: "export", key: "x" },
  { command: "help", key: "?" },
  { command: "leave", key: "escape" },
] as const satisfies readonly Binding[];

export type Command = (typeof BINDINGS)[number]["command"] | "bookmark-go" | "bookmark-set";

export type KeyPress = Pick<
  KeyboardEvent,
  "key" | "code" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey"
> &
  Partial<Pick<KeyboardEvent, "getModifierState">>;

export interface KeyMatch {
  command: Command;
  /** Whether Shift is held, for larger steps. */
  fast: boolean;
  /** For bookmarks: 1 to 9. */
  digit: number;
}

/** Return the command of a key press; null if the key is not used. */
export function matchKey(press: KeyPress): KeyMatch | null {
  // On many layouts, brackets are typed with AltGr, which is reported as Ctrl+Alt.
  const hasAltGr = press.getModifierState?.("AltGraph") ?? false;
  const ctrl = (press.ctrlKey || press.metaKey) && !hasAltGr;
  if (press.altKey && !hasAltGr) return null;
  const digit = /^Digit([1-9])$/.exec(press.code)?.[1];
  const key = press.key.toLowerCase();
  const matchesBinding = (binding: Binding): boolean =>
    (binding.ctrl ?? false) === ctrl &&
    (binding.shift === undefined || binding.shift === press.shiftKey);
  const bindings: readonly Binding<Command>[] = BINDINGS;
  const binding =
    bindings.find((binding) => binding.code === press.code && matchesBinding(binding)) ??
    bindings.find((binding) => binding.key === key && matchesBinding(binding)) ??
    bindings.find((binding) => letterCode(binding.key) === press.code && matchesBinding(binding));
  if (binding !== undefined && (digit === undefined || binding.key === key)) {
    return { command: binding.command, fast: press.shiftKey, digit: 0 };
  }
  if (digit !== undefined && !press.shiftKey) {
    const command = ctrl ? "bookmark-set" : "bookmark-go";
    return { command, fast: false, digit: Number(digit) };
  }
  return null;
}

/** Return a letter's `code` on a US keyboard, for layouts that have the letter elsewhere. */
function letterCode(key: string | undefined): string | null {
  return key !== undefined && /^[a-z]$/.test(key) ? `Key${key.toUpperCase()}` : null;
}

export interface HelpLine {
  /** Alternative key chords, such as `[["Ctrl", "Z"], ["B"]]`. */
  keys: string[][];
  text: string;
}

export interface HelpGroup {
  title: string;
  lines: HelpLine[];
}

/** Keys of the panels that are linked with the timeline. */
export const PANEL_HELP: HelpGroup = {
  title: "In the other panels",
  lines: [
    { keys: [["click"]], text: "select a bar, a cell or a name; again: clear it" },
    { keys: [["Ctrl", "click"]], text: "add it to the selection, or remove it" },
    { keys: [["drag"]], text: "select ranks in a chart, or time in the heatmap" },
    { keys: [["Ctrl", "Z"]], text: "undo, from anywhere in the dashboard" },
    { keys: [["Esc"]], text: "clear the selection" },
  ],
};

export const HELP: readonly HelpGroup[] = [
  {
    title: "Move",
    lines: [
      { keys: [["W"], ["S"]], text: "zoom in or out at the pointer" },
      { keys: [["A"], ["D"]], text: "pan left or right" },
      { keys: [["Shift", "W A S D"]], text: "the same, faster" },
      { keys: [["Ctrl", "wheel"]], text: "zoom at the pointer" },
      { keys: [["Shift", "wheel"]], text: "pan" },
      {
        keys: [
          ["Shift", "drag"],
          ["Space", "drag"],
        ],
        text: "pan",
      },
      { keys: [["↑"], ["↓"]], text: "scroll the rows" },
      { keys: [["drag axis"], ["middle-drag"]], text: "zoom to a range" },
      { keys: [["F"]], text: "zoom to the selection; again: whole job" },
      { keys: [["Z"], ["0"]], text: "whole job" },
      { keys: [["B"], ["⌫"], ["Ctrl", "Z"]], text: "back to the previous view" },
      { keys: [["Ctrl", "Shift", "Z"]], text: "forward again" },
    ],
  },
  {
    title: "Select",
    lines: [
      { keys: [["click"]], text: "show details of an event, or of idle device time" },
      { keys: [["Ctrl", "click"]], text: "add an event, or remove it" },
      { keys: [["double-click"]], text: "zoom to the event" },
      { keys: [["Alt", "double-click"]], text: "select all events of this name" },
      { keys: [["drag"]], text: "select a time window in these rows" },
      { keys: [["Alt"]], text: "while dragging: do not snap to edges" },
      { keys: [["←"], ["→"], [","], ["."]], text: "previous or next event of the lane" },
      { keys: [["["], ["]"]], text: "follow an arrow back or forward" },
      { keys: [["R"]], text: "make the event a window" },
      { keys: [["Ctrl", "A"]], text: "select all ranks; again: whole job" },
      { keys: [["Esc"]], text: "close the panel, clear the selection, or leave" },
    ],
  },
  {
    title: "Find and mark",
    lines: [
      { keys: [["/"]], text: "search; /…/ is a regular expression" },
      { keys: [["Enter"], ["Shift", "Enter"]], text: "next or previous hit" },
      { keys: [["M"]], text: "mark the selection, or the pointer" },
      { keys: [["Shift", "M"]], text: "mark and keep" },
      { keys: [["Delete"]], text: "remove the mark" },
      { keys: [["1 – 9"]], text: "go to a bookmark" },
      { keys: [["Ctrl", "1 – 9"]], text: "bookmark this view" },
    ],
  },
  {
    title: "Rows and more",
    lines: [
      { keys: [["click ▸"]], text: "open or close a rank" },
      { keys: [["G"]], text: "open or close all ranks" },
      { keys: [["U"]], text: "fold similar ranks, or show all" },
      { keys: [["Shift", "U"], ["click ≡"]], text: "show the ranks of one row" },
      { keys: [["E"]], text: "draw lanes that are empty in view thin, or at full height" },
      { keys: [["Shift", "E"], ["click ▸"]], text: "unfold stacks of Python frames, or fold them" },
      { keys: [["P"]], text: "pin the row to the top" },
      { keys: [["C"]], text: "colour by kind, by name, or by what limits the work" },
      { keys: [["X"]], text: "export the window as a trace" },
      { keys: [["Shift", "F"]], text: "full window, and back" },
      { keys: [["?"]], text: "this sheet" },
    ],
  },
];
