/** A place for a view in a real browser, and queries of the elements below its root; for tests. */

import { afterEach } from "vitest";
import { plain } from "./plain";

export interface ViewQueries {
  find(selector: string): HTMLElement;
  all(selector: string): HTMLElement[];
  /** The text of the first match, "" if there is none. */
  text(selector: string): string;
}

export function queriesBelow(root: HTMLElement): ViewQueries {
  const all = (selector: string) => [...root.querySelectorAll<HTMLElement>(selector)];
  return {
    all,
    find: (selector) => {
      const [node] = all(selector);
      if (node === undefined) throw new Error(`nothing is ${selector}`);
      return node;
    },
    text: (selector) => plain(all(selector)[0]?.textContent),
  };
}

const ends: AbortController[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end.abort();
  document.body.replaceChildren();
});

/** A box with this width; `end` aborts after the test. */
export function makeBox(
  width: number,
  place: ParentNode = document.body,
): { box: HTMLElement; end: AbortController } {
  const end = new AbortController();
  ends.push(end);
  const box = document.createElement("div");
  box.style.width = `${width}px`;
  place.append(box);
  return { box, end };
}

/** Titles of the buttons that have less than 4 px to the edges of their toolbar, or lie outside. */
export function toolsOutside(el: HTMLElement): string[] {
  return [...el.querySelectorAll<HTMLElement>(".hta-toolbar")].flatMap((bar) => {
    const { left, right, top, bottom } = bar.getBoundingClientRect();
    const buttons = [...bar.querySelectorAll<HTMLElement>(".hta-button")];
    const outside = buttons.filter((button) => {
      const box = button.getBoundingClientRect();
      const room = [box.left - left, right - box.right, box.top - top, bottom - box.bottom];
      return button.offsetWidth > 0 && Math.min(...room) < 4;
    });
    return outside.map(({ title }) => title);
  });
}
