/** Theme, size and visibility of a widget within its host. */

import type { ThemeName } from "../protocol/source";
import { composedParent } from "./dom";

const DARK_WORD = /(^|[-_\s])dark($|[-_\s])/;
const LIGHT_WORD = /(^|[-_\s])light($|[-_\s])/;

/** Return an element's theme by the conventions of known hosts, or null. */
function themeOf(node: HTMLElement): ThemeName | null {
  const jupyter = node.dataset.jpThemeLight;
  if (jupyter !== undefined) return jupyter === "false" ? "dark" : "light";
  const code = node.dataset.vscodeThemeKind;
  if (code !== undefined) return code.endsWith("light") ? "light" : "dark";
  const text = [
    node.dataset.theme ?? "",
    node.dataset.colorScheme ?? "",
    node.getAttribute("theme") ?? "",
    node.className,
  ];
  for (const word of text) {
    if (DARK_WORD.test(word)) return "dark";
    if (LIGHT_WORD.test(word)) return "light";
  }
  return null;
}

export function detectTheme(el: HTMLElement): ThemeName {
  for (let node: Node | null = el.parentNode; node !== null; node = composedParent(node)) {
    const theme = node instanceof HTMLElement ? themeOf(node) : null;
    if (theme !== null) return theme;
  }
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Call `onChange` whenever the host's theme changes, until the signal aborts. */
export function watchTheme(
  el: HTMLElement,
  signal: AbortSignal,
  onChange: (theme: ThemeName) => void,
): void {
  let theme = detectTheme(el);
  const update = (): void => {
    const now = detectTheme(el);
    if (now === theme) return;
    theme = now;
    onChange(now);
  };
  const observer = new MutationObserver(update);
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
  media.addEventListener("change", update, { signal });
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
}

/** Return the size of an element; null while it is hidden, for example in a hidden output. */
export function sizeOf(el: HTMLElement) {
  const { clientWidth: width, clientHeight: height } = el;
  if (width === 0 || height === 0) return null;
  return { width, height, dpr: window.devicePixelRatio || 1 };
}

export function watchSize(el: HTMLElement, onChange: () => void, signal: AbortSignal): void {
  watchBoxes([el], onChange, signal);
  watchPixelRatio(onChange, signal);
}

/** Call `onChange` initially, and once for all elements that are resized together. */
export function watchBoxes(
  elements: readonly Element[],
  onChange: () => void,
  signal: AbortSignal,
): void {
  const resizes = new ResizeObserver(onChange);
  for (const el of elements) resizes.observe(el);
  signal.addEventListener("abort", () => resizes.disconnect(), { once: true });
}

/** Call `onChange` when the pixel density changes. Each media query matches only one density. */
function watchPixelRatio(onChange: () => void, signal: AbortSignal): void {
  const query = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
  const onDensityChange = () => {
    onChange();
    watchPixelRatio(onChange, signal);
  };
  query.addEventListener("change", onDensityChange, { once: true, signal });
}

// Whether an element is visible, that is, near the window in a foreground page.

/** Elements within one window height above or below the window count as visible. */
const VISIBILITY_MARGIN = "100% 0px";

export class ElementVisibility {
  private isNear = false;

  /** `onChange` is called when the element becomes visible or hidden. */
  constructor(el: Element, onChange: () => void, signal: AbortSignal) {
    let before = this.now;
    const check = (): void => {
      if (this.now === before) return;
      before = this.now;
      onChange();
    };
    document.addEventListener("visibilitychange", check, { signal });
    const observer = new IntersectionObserver(
      (entries) => {
        this.isNear = entries.at(-1)?.isIntersecting ?? this.isNear;
        check();
      },
      { rootMargin: VISIBILITY_MARGIN },
    );
    observer.observe(el);
    signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  }

  /** Whether the element is visible; false until the browser reports it. */
  get now(): boolean {
    return this.isNear && document.visibilityState !== "hidden";
  }
}

// CSS classes for the available width, used by the style sheets.

/** Minimum width at which chips and search are not folded into buttons. */
export const NARROW_BELOW_PX = 900;
/** Minimum width at which the status line has key hints and full badges. */
export const TIGHT_BELOW_PX = 760;
/** Minimum width at which the tables of totals have all their columns. */
const ROOMY_FROM_PX = 1060;
/** Minimum width at which the color mode is written out. */
const WIDE_FROM_PX = 1280;

export function setWidthClass(root: HTMLElement, width: number): void {
  root.classList.toggle("hta-narrow", width < NARROW_BELOW_PX);
  root.classList.toggle("hta-tight", width < TIGHT_BELOW_PX);
  root.classList.toggle("hta-roomy", width >= ROOMY_FROM_PX);
  root.classList.toggle("hta-wide", width >= WIDE_FROM_PX);
}

/** Tracks which elements are visible, so that only visible panels send requests. */
export class VisibilityTracker {
  private readonly visibleElements = new Set<Element>();
  private readonly observer: IntersectionObserver;

  constructor(onChange: () => void, signal: AbortSignal) {
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          if (isIntersecting) this.visibleElements.add(target);
          else this.visibleElements.delete(target);
        }
        onChange();
      },
      // Elements near the window are included, so that data is ready when they scroll into view.
      { rootMargin: "200px" },
    );
    signal.addEventListener("abort", () => this.observer.disconnect(), { once: true });
  }

  watch(el: Element): void {
    this.observer.observe(el);
  }

  isSeen(el: Element): boolean {
    return this.visibleElements.has(el);
  }
}
