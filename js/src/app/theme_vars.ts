/** Hands the theme's colours to the style sheet, so that both draw from one table. */

import type { ThemeName } from "../contract";
import { FONT_FAMILY, MONO_FAMILY, THEMES } from "../draw/theme";

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
