/** A cache of the most recently used values. */
export class LruCache<Key, Value> {
  private readonly entries = new Map<Key, Value>();

  constructor(private readonly capacity: number) {}

  /** Return the value of a key, computed with `make` if it is not cached. */
  get<Made extends Value>(key: Key, make: () => Made): Made {
    const value = this.entries.has(key) ? (this.entries.get(key) as Made) : make();
    this.entries.delete(key);
    this.entries.set(key, value);
    for (const oldest of this.entries.keys()) {
      if (this.entries.size <= this.capacity) break;
      this.entries.delete(oldest);
    }
    return value;
  }

  delete(key: Key): void {
    this.entries.delete(key);
  }

  clear(): void {
    this.entries.clear();
  }
}
