/** Create elements. All text becomes text nodes, so names in a trace are not parsed as HTML. */

import { type ComponentChild, render } from "preact";

type Child = Node | string | null | undefined | false;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number | boolean | null | undefined> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  replaceChildren(node, ...children);
  return node;
}

/** Replace the children of an element, skipping null, undefined and false. */
export function replaceChildren(node: Element, ...children: Child[]): void {
  const shown = children.filter((child) => child !== null && child !== undefined);
  node.replaceChildren(...shown.filter((child) => child !== false));
}

/** Set an ARIA attribute; null removes it. */
export function aria(node: Element, name: string, value: string | boolean | number | null): void {
  if (value === null) node.removeAttribute(`aria-${name}`);
  else node.setAttribute(`aria-${name}`, String(value));
}

/** Return the element that has the focus, even inside a shadow root. */
export function activeElement(node: Node): Element | null {
  const root = node.getRootNode();
  return root instanceof ShadowRoot || root instanceof Document ? root.activeElement : null;
}

/** Return a node's parent, or the host if the node is a shadow root. */
export function composedParent(node: Node): Node | null {
  return node instanceof ShadowRoot ? node.host : node.parentNode;
}

/** Return whether key presses enter text in this element. */
export function isTextEntry(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement) return true;
  if (target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !/^(checkbox|radio|button)$/.test(target.type);
}

/** Draw components into an element until the signal aborts. Signal changes redraw them. */
export function renderInto(children: ComponentChild, host: Element, signal: AbortSignal): void {
  if (signal.aborted) return;
  render(children, host);
  signal.addEventListener("abort", () => render(null, host), { once: true });
}

/** Render a component and return its element, for code that does not use components. */
export function renderElement(node: ComponentChild): HTMLElement {
  const place = document.createDocumentFragment();
  render(node, place);
  return place.firstElementChild as HTMLElement;
}
