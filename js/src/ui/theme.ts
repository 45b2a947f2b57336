/** Colours and sizes of both themes, and their CSS variables. */

import type { Kind, ThemeName } from "../protocol/source";

/** The colours of one theme. Each value is checked for contrast; none is chosen by a drawing. */
export interface Theme {
  readonly name: ThemeName;
  readonly bg: string;
  readonly panel: string;
  readonly lane: string;
  readonly rule: string;
  readonly ruleStrong: string;
  readonly ink: string;
  readonly ink2: string;
  readonly ink3: string;
  readonly link: string;
  readonly waitFill: string;
  readonly waitLine: string;
  readonly idle: string;
  readonly idleLine: string;
  readonly late: string;
  readonly lateFill: string;
  readonly selection: string;
  readonly selectionHalo: string;
  readonly brush: string;
  readonly brushLine: string;
  readonly hover: string;
  readonly hit: string;
  readonly hitLine: string;
  readonly focus: string;
  readonly warnBg: string;
  readonly warnInk: string;
  readonly warnLine: string;
  readonly okInk: string;
  readonly errorBg: string;
  readonly errorInk: string;
  /** From nothing to most: waiting and lateness. */
  readonly waitRamp: readonly string[];
  readonly cpuTint: number;
  readonly annotationTint: number;
  readonly kind: Readonly<Record<Kind, string>>;
  /** Text on a solid mark of the kind. */
  readonly onKind: Readonly<Record<Kind, string>>;
  /** The kind and two steps of the same hue, for colour by name. */
  readonly nameShades: Readonly<Record<Kind, readonly [string, string, string]>>;
}

const light: Theme = {
  name: "light",
  bg: "#ffffff",
  panel: "#f6f7f9",
  lane: "#f1f3f6",
  rule: "#d9dde3",
  ruleStrong: "#868e99",
  ink: "#12171e",
  ink2: "#4b5563",
  ink3: "#626b78",
  link: "#0b57b0",
  kind: {
    compute: "#1f77c0",
    communication: "#e0630f",
    memory: "#2b968c",
    sync: "#9b1626",
    cpu: "#4a4f5c",
    annotation: "#5b0a80",
    other: "#6b7361",
  },
  onKind: {
    compute: "#ffffff",
    communication: "#12171e",
    memory: "#12171e",
    sync: "#ffffff",
    cpu: "#ffffff",
    annotation: "#ffffff",
    other: "#ffffff",
  },
  waitFill: "#fde3d0",
  waitLine: "#c9560a",
  idle: "#e4e8ed",
  idleLine: "#868e99",
  late: "#c01538",
  lateFill: "#fbe3e7",
  selection: "#12171e",
  selectionHalo: "#ffffff",
  brush: "#0b57b01f",
  brushLine: "#0b57b0",
  hover: "#4b5563",
  hit: "#ffd60a",
  hitLine: "#12171e",
  focus: "#0b57b0",
  warnBg: "#fff3d1",
  warnInk: "#744600",
  warnLine: "#b07400",
  okInk: "#1b6e3c",
  errorBg: "#fdeaea",
  errorInk: "#a3122b",
  waitRamp: ["#f1f3f6", "#fbdcc4", "#f5b585", "#e88743", "#c9600f", "#8f3f05", "#572402"],
  cpuTint: 0.13,
  annotationTint: 0.1,
  nameShades: {
    compute: ["#1f77c0", "#136cb3", "#0062a8"],
    communication: ["#e0630f", "#d45a00", "#ba5923"],
    memory: ["#2b968c", "#238e84", "#088077"],
    sync: ["#9b1626", "#8e051d", "#78151e"],
    cpu: ["#4a4f5c", "#414652", "#383c49"],
    annotation: ["#5b0a80", "#510074", "#42065e"],
    other: ["#6b7361", "#616957", "#575f4e"],
  },
};

const dark: Theme = {
  name: "dark",
  bg: "#14181f",
  panel: "#1b2029",
  lane: "#1d232d",
  rule: "#323a46",
  ruleStrong: "#79828f",
  ink: "#eef1f5",
  ink2: "#b8c0cb",
  ink3: "#98a2af",
  link: "#7db7ff",
  kind: {
    compute: "#3d8ff2",
    communication: "#f5821f",
    memory: "#62b08d",
    sync: "#dd4954",
    cpu: "#7d8291",
    annotation: "#dfb8e6",
    other: "#d0dea6",
  },
  onKind: {
    compute: "#0c1016",
    communication: "#0c1016",
    memory: "#0c1016",
    sync: "#0c1016",
    cpu: "#0c1016",
    annotation: "#0c1016",
    other: "#0c1016",
  },
  waitFill: "#4a2b12",
  waitLine: "#d98244",
  idle: "#2a313c",
  idleLine: "#79828f",
  late: "#ff7a90",
  lateFill: "#47202a",
  selection: "#ffffff",
  selectionHalo: "#0c1016",
  brush: "#7db7ff2b",
  brushLine: "#7db7ff",
  hover: "#b8c0cb",
  hit: "#ffd60a",
  hitLine: "#0c1016",
  focus: "#7db7ff",
  warnBg: "#3a2f12",
  warnInk: "#ffd77a",
  warnLine: "#c79a2b",
  okInk: "#7fd6a0",
  errorBg: "#43191f",
  errorInk: "#ffb0bb",
  waitRamp: ["#1d232d", "#4a2b12", "#7b4312", "#b3601a", "#e5862f", "#f8b777", "#fde3c8"],
  cpuTint: 0.3,
  annotationTint: 0.2,
  nameShades: {
    compute: ["#3d8ff2", "#4b9afc", "#68a7f7"],
    communication: ["#f5821f", "#f39655", "#ffa161"],
    memory: ["#62b08d", "#6fbb98", "#7ac6a3"],
    sync: ["#dd4954", "#e8575f", "#f56269"],
    cpu: ["#7d8291", "#878c9b", "#9297a6"],
    annotation: ["#dfb8e6", "#eac4f1", "#f6cffd"],
    other: ["#d0dea6", "#dbe9b2", "#e7f5bd"],
  },
};

export const THEMES: Readonly<Record<ThemeName, Theme>> = { light, dark };

/** Sizes in CSS px. */
export const SIZE = {
  toolbar: 36,
  minimap: 32,
  axis: 20,
  steps: 16,
  status: 28,
  gutter: 164,
  margin: 128,
  details: 196,
  gutterNarrow: 104,
  /** Stages narrower than this have no margin. */
  marginFrom: 900,
  /** Stages narrower than this have the narrow gutter, without the names of lanes. */
  gutterFrom: 760,
} as const;

export const MOTION = {
  hover: 0,
  zoomKey: 120,
  zoomFit: 180,
  panel: 140,
} as const;

export const FONT_FAMILY =
  "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans Condensed', 'DejaVu Sans', sans-serif";
const MONO_FAMILY = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/** Canvas font strings by role. */
export const FONT = {
  label: `11px ${FONT_FAMILY}`,
  labelStrong: `600 11px ${FONT_FAMILY}`,
  body: `12px ${FONT_FAMILY}`,
  bodyStrong: `600 12px ${FONT_FAMILY}`,
} as const;

// Hands the theme's colours to the style sheet, so that both draw from one table.

const PLAIN = [
  "bg",
  "panel",
  "lane",
  "rule",
  "ruleStrong",
  "ink",
  "ink2",
  "ink3",
  "link",
  "waitFill",
  "waitLine",
  "late",
  "lateFill",
  "idle",
  "selection",
  "hover",
  "hit",
  "focus",
  "warnBg",
  "warnInk",
  "warnLine",
  "okInk",
  "errorBg",
  "errorInk",
] as const;

export function applyTheme(root: HTMLElement, name: ThemeName): void {
  const theme = THEMES[name];
  root.dataset.theme = name;
  root.style.setProperty("color-scheme", name);
  root.style.setProperty("--hta-font", FONT_FAMILY);
  root.style.setProperty("--hta-mono", MONO_FAMILY);
  for (const key of PLAIN) root.style.setProperty(`--hta-${dashed(key)}`, theme[key]);
  for (const [kind, colour] of Object.entries(theme.kind)) {
    root.style.setProperty(`--hta-kind-${kind}`, colour);
  }
}

function dashed(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
