/** What jsdom lacks: it lays nothing out, so that no box ever changes its size. */

globalThis.ResizeObserver ??= class implements ResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
};
