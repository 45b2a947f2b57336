/** Movement by held keys: starts at once, speeds up, ends softly, and never depends on frame rate. */

export type Axis = "zoom" | "pan" | "rows";

export interface Push {
  axis: Axis;
  direction: 1 | -1;
  fast: boolean;
}

/** What one press alone moves: zoom as ln(factor), pan as a share of the view, rows in px. */
export const PRESS: Readonly<Record<Axis, number>> = {
  zoom: Math.log(1.35),
  pan: 0.12,
  rows: 44,
};

/** Per second while held, before it speeds up. */
const RATE: Readonly<Record<Axis, number>> = { zoom: 1.9, pan: 0.9, rows: 420 };

const FAST = 3;
const HOLD_MS = 180;
const FULL_SPEED_MS = 1600;
const TOP = 2.6;
const SOFT_MS = 38;

/** How much faster than at first a key moves after being held so long. */
export function speedUp(heldMs: number): number {
  const t = Math.min(Math.max((heldMs - HOLD_MS) / (FULL_SPEED_MS - HOLD_MS), 0), 1);
  return 1 + (TOP - 1) * t * t;
}

/** Share of what is still to go that is done within `dt` ms. */
export function softShare(dt: number): number {
  return 1 - Math.exp(-dt / SOFT_MS);
}

interface HeldKey extends Push {
  since: number;
}

export class Motion {
  private readonly held = new Map<string, HeldKey>();
  private readonly pending: Record<Axis, number> = { zoom: 0, pan: 0, rows: 0 };
  private last = 0;
  private frame = 0;

  constructor(
    private readonly move: (axis: Axis, amount: number) => void,
    private readonly rest: () => void,
    private readonly calm: () => boolean,
  ) {}

  get active(): boolean {
    return this.frame !== 0;
  }

  /** A key went down; repeats of the keyboard are ignored, time is what counts. */
  press(id: string, push: Push, now: number): void {
    const before = this.held.get(id);
    if (before !== undefined) {
      before.fast = push.fast;
      return;
    }
    this.held.set(id, { ...push, since: now });
    this.add(push, PRESS[push.axis]);
    if (!this.frame) {
      this.last = now;
      this.frame = requestAnimationFrame((time) => this.step(time));
    }
  }

  release(id: string): void {
    this.held.delete(id);
  }

  releaseAll(): void {
    this.held.clear();
  }

  stop(): void {
    this.held.clear();
    this.pending.zoom = this.pending.pan = this.pending.rows = 0;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  /** Advance to `now`; public so that tests need no clock. */
  step(now: number): void {
    // A frame that comes late must not jump.
    const dt = Math.min(Math.max(now - this.last, 1), 64);
    this.last = now;
    for (const key of this.held.values()) {
      const held = now - key.since;
      if (held > HOLD_MS) this.add(key, (RATE[key.axis] * speedUp(held) * dt) / 1000);
    }
    const share = this.calm() ? 1 : softShare(dt);
    let left = false;
    for (const axis of ["zoom", "pan", "rows"] as const) {
      const todo = this.pending[axis];
      if (todo === 0) continue;
      const tiny = Math.abs(todo) < PRESS[axis] / 200;
      const amount = tiny ? todo : todo * share;
      this.pending[axis] = tiny || share === 1 ? 0 : todo - amount;
      if (this.pending[axis] !== 0) left = true;
      this.move(axis, amount);
    }
    if (left || this.held.size > 0) {
      this.frame = requestAnimationFrame((time) => this.step(time));
    } else {
      this.frame = 0;
      this.rest();
    }
  }

  private add(push: Push, amount: number): void {
    this.pending[push.axis] += push.direction * amount * (push.fast ? FAST : 1);
  }
}
