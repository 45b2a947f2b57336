/** Which panels can be seen: nothing is asked for the others. */

export class Sight {
  private readonly seen = new Set<Element>();
  private readonly observer: IntersectionObserver;

  constructor(changed: () => void, signal: AbortSignal) {
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          if (isIntersecting) this.seen.add(target);
          else this.seen.delete(target);
        }
        changed();
      },
      // A little beyond the window, so that scrolling finds numbers and not their absence.
      { rootMargin: "200px" },
    );
    signal.addEventListener("abort", () => this.observer.disconnect(), { once: true });
  }

  watch(el: Element): void {
    this.observer.observe(el);
  }

  isSeen(el: Element): boolean {
    return this.seen.has(el);
  }
}
