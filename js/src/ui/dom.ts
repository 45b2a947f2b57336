/** Elements from code. Text enters the page as text nodes only, so no name in a trace can be markup. */

import { type ComponentChild, render } from "preact";

export type Child = Node | string | number | null | undefined | false;

type Value = string | number | boolean | null | undefined;

interface Attributes {
  on?: Record<string, (event: never) => void>;
  style?: Record<string, string>;
  [name: string]: Value | Record<string, string> | Record<string, (event: never) => void>;
}

const SVG = "http://www.w3.org/2000/svg";

function dress(node: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [type, listener] of Object.entries(attributes.on ?? {})) {
        node.addEventListener(type, listener as EventListener);
      }
    } else if (name === "style") {
      for (const [property, text] of Object.entries(attributes.style ?? {})) {
        (node as HTMLElement).style.setProperty(property, text);
      }
    } else if (typeof value === "string" || typeof value === "number") {
      node.setAttribute(name, String(value));
    } else if (value === true) {
      node.setAttribute(name, "");
    }
  }
  put(node, ...children);
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  dress(node, attributes, children);
  return node;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS(SVG, tag);
  dress(node, attributes, children);
  return node;
}

/** Append children; null, undefined and false are skipped. */
export function put(node: Element, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    node.append(typeof child === "number" ? String(child) : child);
  }
}

/** Replace everything inside. */
export function fill(node: Element, ...children: Child[]): void {
  node.replaceChildren();
  put(node, ...children);
}

export function toggle(node: Element, name: string, on: boolean): void {
  node.classList.toggle(name, on);
}

/** Set a state for screen readers as `true` or `false`; null removes the attribute. */
export function aria(node: Element, name: string, value: string | boolean | number | null): void {
  if (value === null) node.removeAttribute(`aria-${name}`);
  else node.setAttribute(`aria-${name}`, String(value));
}

/** The element that has the focus, also inside a shadow root. */
export function focused(node: Node): Element | null {
  const root = node.getRootNode();
  return root instanceof ShadowRoot || root instanceof Document ? root.activeElement : null;
}

/** Whether keys write text in this element. */
export function isTextEntry(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement) return true;
  if (target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !/^(checkbox|radio|button)$/.test(target.type);
}

/** Draw components into an element until the signal aborts; they are redrawn by signals. */
export function mount(children: ComponentChild, host: Element, signal: AbortSignal): void {
  if (signal.aborted) return;
  render(children, host);
  signal.addEventListener("abort", () => render(null, host), { once: true });
}

/** The element of a component, for code that keeps elements itself. */
export function made(node: ComponentChild): HTMLElement {
  const place = document.createDocumentFragment();
  render(node, place);
  return place.firstElementChild as HTMLElement;
}
