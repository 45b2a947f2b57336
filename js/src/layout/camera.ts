/** The view over time: where it is, where it is going, and how far it has come. */

import type { Span } from "../contract";
import { between, clampView, ease, jobSpan, zoomed } from "./viewport";

interface Journey {
  from: Span;
  began: number;
  length: number;
}

export class Camera {
  private shown: Span;
  private goal: Span;
  private journey: Journey | null = null;
  job: Span;

  constructor(range: Span) {
    this.job = jobSpan(range);
    this.shown = this.job;
    this.goal = this.job;
  }

  get view(): Span {
    return this.shown;
  }

  /** The view that the shown one is on its way to. */
  get target(): Span {
    return this.goal;
  }

  get moving(): boolean {
    return this.journey !== null;
  }

  /** Another job: back to all of it, unless the view lies within it. */
  reset(range: Span): void {
    this.job = jobSpan(range);
    this.journey = null;
    this.shown = this.job;
    this.goal = this.job;
  }

  /** Go to `view` in `length` ms; true if the shown view has changed at once. */
  go(view: Span, length: number, now: number): boolean {
    this.goal = clampView(view, this.job);
    const here = this.goal[0] === this.shown[0] && this.goal[1] === this.shown[1];
    if (length <= 0 || here) {
      this.journey = null;
      return this.arrive();
    }
    this.journey = { from: this.shown, began: now, length };
    return false;
  }

  zoom(factor: number, atTime: number, length: number, now: number): boolean {
    // From the goal, so that quick repeated steps add up; the pointer's time stays under it only
    // if it is measured in the goal as well.
    const share = (atTime - this.shown[0]) / (this.shown[1] - this.shown[0]);
    const at = this.goal[0] + share * (this.goal[1] - this.goal[0]);
    return this.go(zoomed(this.goal, factor, at), length, now);
  }

  /** Move on; true while something changes. */
  step(now: number): boolean {
    if (this.journey === null) return false;
    const { from, began, length } = this.journey;
    const share = (now - began) / length;
    if (share >= 1) {
      this.journey = null;
      this.shown = this.goal;
    } else {
      this.shown = between(from, this.goal, ease(share));
    }
    return true;
  }

  private arrive(): boolean {
    const changed = this.shown[0] !== this.goal[0] || this.shown[1] !== this.goal[1];
    this.shown = this.goal;
    return changed;
  }
}
