/** Light or dark, as the host shows itself. */

import type { ThemeName } from "../contract";

const DARK_WORD = /(^|[-_\s])dark($|[-_\s])/;
const LIGHT_WORD = /(^|[-_\s])light($|[-_\s])/;

/** What an element says of its theme by the ways that hosts are known to use, or null. */
function said(node: HTMLElement): ThemeName | null {
  const jupyter = node.dataset.jpThemeLight;
  if (jupyter !== undefined) return jupyter === "false" ? "dark" : "light";
  const code = node.dataset.vscodeThemeKind;
  if (code !== undefined) {
    if (code.endsWith("light")) return "light";
    return "dark";
  }
  const words = [
    node.dataset.theme ?? "",
    node.dataset.colorScheme ?? "",
    node.getAttribute("theme") ?? "",
    node.className,
  ];
  for (const word of words) {
    if (typeof word !== "string") continue;
    if (DARK_WORD.test(word)) return "dark";
    if (LIGHT_WORD.test(word)) return "light";
  }
  return null;
}

export function detectTheme(el: HTMLElement): ThemeName {
  for (let node: Node | null = el.parentNode; node !== null; node = up(node)) {
    const theme = node instanceof HTMLElement ? said(node) : null;
    if (theme !== null) return theme;
  }
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function up(node: Node): Node | null {
  return node instanceof ShadowRoot ? node.host : node.parentNode;
}

/** Calls back on every change of the host's theme until the signal. */
export function watchTheme(
  el: HTMLElement,
  signal: AbortSignal,
  changed: (theme: ThemeName) => void,
): void {
  let theme = detectTheme(el);
  const look = (): void => {
    const now = detectTheme(el);
    if (now === theme) return;
    theme = now;
    changed(now);
  };
  const observer = new MutationObserver(look);
  for (const node of [document.body, document.documentElement]) {
    observer.observe(node, {
      attributes: true,
      attributeFilter: [
        "class",
        "theme",
        "data-theme",
        "data-color-scheme",
        "data-jp-theme-light",
        "data-vscode-theme-kind",
      ],
    });
  }
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", look, { signal });
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
}
