/** Long work in pieces, so that the page paints and listens in between. */

const LONGEST_MS = 12;

/** Go on when the page has had its turn. */
export function laterOn(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

export class Pacer {
  private since = performance.now();

  get due(): boolean {
    return performance.now() - this.since > LONGEST_MS;
  }

  /** Let the page have its turn, if this has worked for long. */
  async rest(): Promise<void> {
    if (!this.due) return;
    await laterOn();
    this.since = performance.now();
  }
}
