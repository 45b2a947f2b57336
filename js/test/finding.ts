/** Queries of the elements below a view's root; for tests. */

import { plain } from "./plain";

export interface Finding {
  find(selector: string): HTMLElement;
  all(selector: string): HTMLElement[];
  /** The text of the first one, "" if there is none. */
  text(selector: string): string;
}

export function findingIn(root: HTMLElement): Finding {
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
