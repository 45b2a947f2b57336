/** Popovers and menus at buttons, and toolbars. */

import { type ComponentChildren, render, type VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Button, type ButtonLook, Icon } from "./controls";
import { aria, focused, h } from "./dom";
import { visibleBox } from "./placing";

const GAP_PX = 4;
const EDGE_PX = 8;

interface Opened {
  root: HTMLElement;
  anchor: HTMLElement;
  /** What had the focus before. */
  before: Element | null;
  shut: AbortController;
}

/** A layer with content at a button, which may be another one each time. */
export class Popover {
  private readonly el: HTMLElement;
  private opened: Opened | null = null;

  constructor(
    private readonly root: () => HTMLElement,
    name: string,
    /** Drawn each time the popover opens. */
    private readonly content: () => VNode,
    private readonly signal: AbortSignal,
    private readonly role: "dialog" | "menu" = "dialog",
  ) {
    this.el = h("div", { class: "hta-popover", role, "aria-label": name });
  }

  toggle(anchor: HTMLElement): void {
    if (!this.close()) this.open(anchor);
  }

  open(anchor: HTMLElement): void {
    this.close(false);
    if (this.signal.aborted) return;
    const { el } = this;
    const root = this.root();
    const shut = new AbortController();
    this.opened = { root, anchor, before: focused(root), shut };
    root.append(el);
    render(this.content(), el);
    placeAt(anchor, el, root);
    aria(anchor, "haspopup", this.role);
    aria(anchor, "expanded", true);
    const outside = (event: Event): void => {
      const path = event.composedPath();
      if (!path.includes(el) && !path.includes(anchor)) this.close(false);
    };
    const { signal } = shut;
    this.signal.addEventListener("abort", () => this.close(false), { signal });
    root.addEventListener("pointerdown", outside, { signal, capture: true });
    document.addEventListener("pointerdown", outside, { signal, capture: true });
    root.addEventListener("hta-escape", (event) => this.onEscape(event), { signal });
    for (const one of [el, anchor]) {
      one.addEventListener("keydown", (event) => this.onKey(event), { signal });
    }
    const first =
      el.querySelector<HTMLElement>("[data-first]") ??
      el.querySelector<HTMLElement>("input, button");
    first?.focus({ preventScroll: true });
  }

  /** False if it was not open. */
  close(giveFocusBack = true): boolean {
    const { el, opened } = this;
    if (opened === null) return false;
    const { root, anchor, before, shut } = opened;
    const inside = el.contains(focused(el));
    shut.abort();
    this.opened = null;
    el.remove();
    render(null, el);
    aria(anchor, "expanded", false);
    if (!inside || !giveFocusBack) return true;
    // Not every browser focuses a button when it is clicked.
    const back = before instanceof HTMLElement && root.contains(before) ? before : anchor;
    back.focus({ preventScroll: true });
    return true;
  }

  private onKey(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      event.stopPropagation();
      this.onEscape(event);
    } else if (this.role === "menu") {
      const items = [...this.el.querySelectorAll<HTMLElement>("[role^=menuitem]")];
      rove(event, items, "ArrowDown", "ArrowUp");
    }
  }

  private onEscape(event: Event): void {
    event.preventDefault();
    event.stopImmediatePropagation();
    this.close();
  }
}

/** Place a popover below its anchor, or above it if there is more room; always visible. */
function placeAt(anchor: HTMLElement, el: HTMLElement, root: HTMLElement): void {
  const seen = visibleBox(root);
  const frame = root.getBoundingClientRect();
  // An anchor without a size is hidden: use the corner of the visible part of the page.
  const shown = anchor.getBoundingClientRect();
  const box =
    shown.width > 0 ? shown : { left: seen.right, top: seen.top + 40, bottom: seen.top + 40 };
  const below = seen.bottom - EDGE_PX - (box.bottom + GAP_PX);
  const above = box.top - GAP_PX - (seen.top + EDGE_PX);
  el.style.maxHeight = `${seen.bottom - seen.top - 2 * EDGE_PX}px`;
  const { offsetWidth: width, offsetHeight: height } = el;
  const wanted =
    height <= below || below >= above ? box.bottom + GAP_PX : box.top - GAP_PX - height;
  const top = clamp(wanted, seen.top + EDGE_PX, seen.bottom - EDGE_PX - height);
  const left = clamp(box.left, seen.left + EDGE_PX, seen.right - EDGE_PX - width);
  el.style.left = `${left - frame.left - root.clientLeft}px`;
  el.style.top = `${top - frame.top - root.clientTop}px`;
}

function clamp(value: number, least: number, most: number): number {
  return Math.max(least, Math.min(value, most));
}

/** Move the focus among `stops` by arrows, Home and End. */
function rove(event: KeyboardEvent, stops: HTMLElement[], next: string, before: string): void {
  const at = stops.indexOf(event.target as HTMLElement);
  const to = { [next]: at + 1, [before]: at - 1, Home: 0, End: stops.length - 1 }[event.key];
  if (to === undefined || stops.length === 0) return;
  event.preventDefault();
  event.stopPropagation();
  stops[(Math.max(to, -1) + stops.length) % stops.length]!.focus();
}

/** A button that opens what `content` draws below it. */
export function Opener({
  content,
  role = "dialog",
  ...look
}: Omit<ButtonLook, "press"> & {
  role?: "dialog" | "menu";
  content(close: () => void, anchor: HTMLElement): VNode;
}) {
  const open = useRef<Popover | null>(null);
  const latest = useRef(content);
  latest.current = content;
  const ended = useRef(new AbortController());
  useLayoutEffect(() => () => ended.current.abort(), []);
  const press = ({ currentTarget }: MouseEvent): void => {
    const anchor = currentTarget as HTMLElement;
    const close = (): void => void open.current?.close();
    open.current ??= new Popover(
      () => anchor.closest<HTMLElement>(".hta-root")!,
      look.name ?? look.text ?? "",
      () => latest.current(close, anchor),
      ended.current.signal,
      role,
    );
    open.current.toggle(anchor);
  };
  return <Button {...look} press={press} />;
}

export interface MenuItem {
  text: string;
  note?: string;
  /** Whether it is chosen; undefined for commands. */
  on?: boolean;
  /** Whether a line separates it from the entry above. */
  isParted?: boolean;
  press(): void;
}

/**
 * A button with a menu; `keep`: it stays open while its switches are pressed. `closed` is called
 * after it is closed.
 */
export function MenuButton({
  items,
  keep = false,
  closed,
  ...look
}: Omit<ButtonLook, "press"> & {
  items(): readonly MenuItem[];
  keep?: boolean;
  closed?: () => void;
}) {
  const content = (close: () => void): VNode => (
    <Menu items={items} close={keep ? () => undefined : close} closed={closed} />
  );
  return <Opener {...look} role="menu" content={content} />;
}

function Menu(look: { items(): readonly MenuItem[]; close(): void; closed?: () => void }) {
  const { items, close, closed } = look;
  useEffect(() => closed, [closed]);
  return (
    <div class="hta-dash-menu">
      {items().map(({ text, note, on, isParted = false, press }) => (
        <button
          key={text}
          type="button"
          class={`hta-menu-item${isParted ? " hta-parted" : ""}`}
          role={on === undefined ? "menuitem" : "menuitemcheckbox"}
          aria-checked={on}
          onClick={() => {
            close();
            press();
          }}
        >
          {on !== undefined && <span class="hta-menu-mark">{on && <Icon name="check" />}</span>}
          <span>{text}</span>
          {note !== undefined && <span class="hta-note">{note}</span>}
        </button>
      ))}
    </div>
  );
}

/** A toolbar is one stop of Tab; arrows, Home and End move in it. Fields keep their own keys. */
export function Toolbar(look: { name: string; class?: string; children: ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const stops = (): HTMLElement[] =>
    [...place.current!.querySelectorAll("button")].filter((el) => el.closest("[hidden]") === null);
  const keepOne = (one: EventTarget | null | undefined): void => {
    for (const el of stops()) el.tabIndex = el === one ? 0 : -1;
  };
  useLayoutEffect(() => {
    const settle = (): void => {
      const all = stops();
      keepOne(all.find(({ tabIndex }) => tabIndex === 0) ?? all[0]);
    };
    settle();
    // Components in the toolbar add, remove and hide buttons.
    const changes = new MutationObserver(settle);
    changes.observe(place.current!, {
      childList: true,
      subtree: true,
      attributeFilter: ["hidden"],
    });
    return () => changes.disconnect();
  }, []);
  return (
    <div
      ref={place}
      class={`hta-toolbar ${look.class ?? ""}`}
      role="toolbar"
      aria-label={look.name}
      onFocusIn={({ target }) => target instanceof HTMLButtonElement && keepOne(target)}
      onKeyDown={(event) =>
        event.target instanceof HTMLButtonElement && rove(event, stops(), "ArrowRight", "ArrowLeft")
      }
    >
      {look.children}
    </div>
  );
}
