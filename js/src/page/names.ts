/** Names of the whole job: full, short, and the keys under which short ones travel. */

import type { PageDocument } from "./document";

export class Names {
  constructor(private readonly page: PageDocument) {}

  get all(): readonly string[] {
    return this.page.names;
  }

  full(name: number): string {
    return this.page.names[name] ?? "";
  }

  short(name: number): string {
    return this.page.shorts[this.key(name)] ?? "";
  }

  /** The key of a name's short form; the same for all names that are called so. */
  key(name: number): number {
    return this.page.short_of[name] ?? 0;
  }

  shortOfKey(key: number): string {
    return this.page.shorts[key] ?? "";
  }

  category(category: number): string {
    return this.page.categories[category] ?? "";
  }

  kind(code: number): string {
    return this.page.scene.kinds[code] ?? "other";
  }
}
