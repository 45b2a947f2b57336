/** A source whose requests are recorded, and whose replies can fail, wait or be replaced; for tests. */

import { signal } from "@preact/signals";
import type { Operation, Requests, Source, Answer } from "../src/protocol/source";
import { openPage } from "./recorded";

type SourceStatus = Source["status"];

export class Watched implements Source {
  /** Whether effects follow the status. */
  isWatched = false;
  private readonly now = signal<SourceStatus>("live", {
    watched: () => (this.isWatched = true),
    unwatched: () => (this.isWatched = false),
  });
  readonly asked: { op: string; request: Record<string, unknown> }[] = [];
  /** Errors by operation. */
  readonly broken = new Map<string, string>();
  /** Replies by operation, instead of the source's. */
  readonly replies = new Map<string, (request: never) => Record<string, unknown>>();
  /** If an array, all replies wait until `release` is called. */
  held: (() => void)[] | null = null;

  constructor(private readonly inner: Source = openPage()) {}

  get status(): SourceStatus {
    return this.now.value;
  }

  become(status: SourceStatus): void {
    this.now.value = status;
  }

  release(): void {
    const held = this.held ?? [];
    this.held = null;
    for (const go of held) go();
  }

  async ask<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal?: AbortSignal,
  ): Promise<Answer<Op>> {
    this.asked.push({ op, request: request });
    if (this.held !== null) await new Promise<void>((resolve) => this.held?.push(resolve));
    signal?.throwIfAborted();
    const broken = this.broken.get(op);
    if (broken !== undefined) throw new Error(broken);
    const reply = this.replies.get(op)?.(request as never);
    return reply === undefined
      ? this.inner.ask(op, request, signal)
      : ({ reply, buffer: null } as Answer<Op>);
  }
}
