/** How a view finds its answers in a saved page: the one part of it that widgets know. */

import type { Source } from "../contract";

/** The trait that only models of a saved page have: the name of their embedded data. */
export const EMBEDDED = "_embedded";

// Each module of a page has its own copy of this file; the registry is the page's.
const REGISTRY = Symbol.for("hta_widgets.page_sources");

type Registry = Map<string, Source>;

function registry(): Registry {
  const scope = globalThis as { [REGISTRY]?: Registry };
  scope[REGISTRY] ??= new Map<string, Source>();
  return scope[REGISTRY];
}

/** Offer a source under the name that models carry in `_embedded`. */
export function offerPageSource(name: string, source: Source): void {
  registry().set(name, source);
}

/** The source of a model's embedded data; null where a kernel answers. */
export function findPageSource(model: { get(key: string): unknown }): Source | null {
  const name = model.get(EMBEDDED);
  return typeof name === "string" ? (registry().get(name) ?? null) : null;
}
