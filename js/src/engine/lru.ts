/** A map of the most recently used values. */
export class Lru<Key, Value> {
  private readonly kept = new Map<Key, Value>();

  constructor(private readonly most: number) {}

  /** The value of a key; `make` computes it if it is not cached. */
  get<Made extends Value>(key: Key, make: () => Made): Made {
    const value = this.kept.has(key) ? (this.kept.get(key) as Made) : make();
    this.kept.delete(key);
    this.kept.set(key, value);
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= this.most) break;
      this.kept.delete(oldest);
    }
    return value;
  }

  delete(key: Key): void {
    this.kept.delete(key);
  }

  clear(): void {
    this.kept.clear();
  }
}
