/** Draws when something has changed, at most once for each frame of the browser. */

export interface Dirty {
  head: boolean;
  gutter: boolean;
  lanes: boolean;
  margin: boolean;
  overlay: boolean;
}

const NOTHING: Dirty = { head: false, gutter: false, lanes: false, margin: false, overlay: false };
export const EVERYTHING: Dirty = {
  head: true,
  gutter: true,
  lanes: true,
  margin: true,
  overlay: true,
};

export class FrameLoop {
  private dirty: Dirty = { ...EVERYTHING };
  private frame = 0;
  private stopped = false;

  constructor(private readonly draw: (now: number) => void) {}

  /** These parts must be drawn anew. */
  touch(parts: Partial<Dirty>): void {
    for (const part of Object.keys(parts) as (keyof Dirty)[]) {
      // What is to be drawn already stays so, whoever says that it has no part in it.
      this.dirty[part] ||= parts[part] === true;
    }
    this.schedule();
  }

  /** A frame is wanted, even if no part has changed yet. */
  schedule(): void {
    if (this.frame !== 0 || this.stopped) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      this.draw(now);
    });
  }

  /** What has changed since this was last asked. It is drawn now: no frame has to wait for it. */
  take(): Dirty {
    const { dirty } = this;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.dirty = { ...NOTHING };
    return dirty;
  }

  stop(): void {
    this.stopped = true;
    cancelAnimationFrame(this.frame);
  }
}
