/** The size of an element and the density of its display, whenever one of them changes. */

export interface Size {
  width: number;
  height: number;
  dpr: number;
}

/** Null while the element is hidden: outputs out of sight have no size. */
export function sizeOf(el: HTMLElement): Size | null {
  const { clientWidth: width, clientHeight: height } = el;
  if (width === 0 || height === 0) return null;
  return { width, height, dpr: window.devicePixelRatio || 1 };
}

export function watchSize(el: HTMLElement, onChange: () => void, signal: AbortSignal): void {
  watchBoxes([el], onChange, signal);
  watchDensity(onChange, signal);
}

/** Hear once of all elements whose size changed, and of what size they have at first. */
export function watchBoxes(
  elements: readonly Element[],
  onChange: () => void,
  signal: AbortSignal,
): void {
  const resizes = new ResizeObserver(onChange);
  for (const el of elements) resizes.observe(el);
  signal.addEventListener("abort", () => resizes.disconnect(), { once: true });
}

/** A query matches one density only: after each change the next one is asked for. */
function watchDensity(onChange: () => void, signal: AbortSignal): void {
  const query = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
  const changed = () => {
    onChange();
    watchDensity(onChange, signal);
  };
  query.addEventListener("change", changed, { once: true, signal });
}
