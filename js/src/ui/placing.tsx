/** The visible part of an element, and widgets that fill the window. */

import { signal, useSignal } from "@preact/signals";
import { Button } from "./controls";
import { h, composedParent } from "./dom";

interface ViewportRect {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

const FULL = "hta-full";

/** Return the outermost widget around `root`, for a linked panel the view that contains it. */
export function outermostElement(root: HTMLElement): HTMLElement {
  return root.parentElement?.closest<HTMLElement>(".hta-root") ?? root;
}

/** Return the part of an element inside the window and all ancestors that clip it. */
export function visibleRect(el: HTMLElement): ViewportRect {
  const { left, top, right, bottom } = el.getBoundingClientRect();
  const box = { left, top, right, bottom };
  const clipTo = (clip: ViewportRect): void => {
    box.left = Math.max(box.left, clip.left);
    box.top = Math.max(box.top, clip.top);
    box.right = Math.min(box.right, clip.right);
    box.bottom = Math.min(box.bottom, clip.bottom);
  };
  clipTo({ left: 0, top: 0, right: window.innerWidth, bottom: window.innerHeight });
  for (let node: Node | null = el; node !== null; node = composedParent(node)) {
    if (!(node instanceof HTMLElement) || node === document.body) continue;
    if (node !== el && getComputedStyle(node).overflowY !== "visible") {
      clipTo(node.getBoundingClientRect());
    }
    // No ancestor clips a widget that fills the window.
    if (node.classList.contains(FULL)) break;
  }
  return box;
}

/** Makes a widget fill the window, above everything else in its host. */
export class FullWindow {
  private readonly on = signal(false);
  /** Takes up the widget's space in the host's page. */
  private readonly placeholder = h("div", { "aria-hidden": "true" });

  constructor(
    private readonly root: HTMLElement,
    private readonly changed: () => void = () => undefined,
  ) {}

  get isOn(): boolean {
    return this.on.value;
  }

  toggle(): void {
    this.set(!this.isOn);
  }

  /** Leave the full window. Return false if the widget did not fill the window. */
  leave(): boolean {
    const { isOn } = this;
    if (isOn) this.set(false);
    return isOn;
  }

  private set(on: boolean): void {
    const { root, placeholder } = this;
    if (on) {
      placeholder.style.height = `${root.offsetHeight}px`;
      root.after(placeholder);
    }
    root.classList.toggle(FULL, on);
    this.on.value = on;
    // In the top layer, the widget is not clipped or moved by ancestors in the host's page.
    if (on) {
      root.setAttribute("popover", "manual");
      root.showPopover?.();
    } else {
      root.hidePopover?.();
      root.removeAttribute("popover");
      placeholder.remove();
    }
    this.changed();
    if (!on) root.scrollIntoView({ block: "nearest" });
  }
}

const USED_KEY = "hta-full-window-used";

/** With `hint`, the button shows its name next to the icon until its first use. */
export function FullButton({ full, hint = false }: { full: FullWindow; hint?: boolean }) {
  const isUsed = useSignal(!hint || readStored(USED_KEY) !== null);
  return (
    <Button
      icon="full"
      {...(!isUsed.value && { text: "Full window" })}
      name="Full window"
      keys="Shift+F"
      class="hta-full-button"
      on={full.isOn}
      press={() => {
        isUsed.value = true;
        store(USED_KEY, "1");
        full.toggle();
      }}
    />
  );
}

// Settings stored in this browser. Pages in frames may lack storage.

function readStored(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function store(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The hint will be shown again.
  }
}
