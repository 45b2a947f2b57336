/** What a click makes of the keys that were chosen before; null is everything. */

/** Added where one of them is missing, else taken away. */
export function toggled<K>(before: readonly K[] | null, keys: readonly K[]): K[] | null {
  const found = new Set(before ?? []);
  const all = keys.every((key) => found.has(key));
  for (const key of keys) {
    if (all) found.delete(key);
    else found.add(key);
  }
  return found.size === 0 ? null : [...found];
}

/** Whether these are chosen, and nothing else. */
export function stillOnly<K>(before: readonly K[] | null, keys: readonly K[]): boolean {
  if (before === null) return false;
  const found = new Set(before);
  const wanted = new Set(keys);
  return found.size === wanted.size && [...wanted].every((key) => found.has(key));
}
