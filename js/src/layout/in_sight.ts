/** Whether somebody can see an element: near enough to the window, in a page that is in front. */

/** As far beyond the window an element counts as seen: as high as the window itself. */
const MARGIN = "100% 0px";

export class InSight {
  /** Null as long as the browser has not said. */
  private near: boolean | null;

  /** `onChange` hears when it comes into sight and when it goes. */
  constructor(el: Element, onChange: () => void, signal: AbortSignal) {
    this.near = typeof IntersectionObserver === "undefined" ? true : null;
    let before = this.now;
    const look = (): void => {
      if (this.now === before) return;
      before = this.now;
      onChange();
    };
    document.addEventListener("visibilitychange", look, { signal });
    if (this.near === true) return;
    const observer = new IntersectionObserver(
      (entries) => {
        this.near = entries.at(-1)?.isIntersecting ?? this.near;
        look();
      },
      { rootMargin: MARGIN },
    );
    observer.observe(el);
    signal.addEventListener("abort", () => observer.disconnect(), { once: true });
  }

  get now(): boolean {
    return this.near === true && document.visibilityState !== "hidden";
  }

  /** It is known that nobody can. */
  get isOut(): boolean {
    return this.near !== null && !this.now;
  }
}
