/** Popovers, menus and toolbars. */

import { useSignal } from "@preact/signals";
import { type ComponentChildren, Fragment, render, type VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Button, type ButtonProps, Icon } from "./controls";
import { aria, activeElement, h } from "./dom";
import { visibleRect } from "./placing";

const GAP_PX = 4;
const EDGE_PX = 8;
const CONTROLS = "input, select, button";

interface OpenPopover {
  root: HTMLElement;
  anchor: HTMLElement;
  /** The element that had the focus before the popover opened. */
  focusBefore: Element | null;
  /** Aborted when the popover closes, which removes its listeners. */
  listeners: AbortController;
}

/** A layer with content, placed at a button that may differ each time the layer opens. */
export class Popover {
  private readonly el: HTMLElement;
  private openPopover: OpenPopover | null = null;

  constructor(
    private readonly root: () => HTMLElement,
    name: string,
    /** Draws the content each time the popover opens. */
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
    const listeners = new AbortController();
    this.openPopover = { root, anchor, focusBefore: activeElement(root), listeners };
    root.append(el);
    render(this.content(), el);
    placePopover(anchor, el, root);
    aria(anchor, "haspopup", this.role);
    aria(anchor, "expanded", true);
    const outside = (event: Event): void => {
      const path = event.composedPath();
      if (!path.includes(el) && !path.includes(anchor)) this.close(false);
    };
    const { signal } = listeners;
    this.signal.addEventListener("abort", () => this.close(false), { signal });
    root.addEventListener("pointerdown", outside, { signal, capture: true });
    document.addEventListener("pointerdown", outside, { signal, capture: true });
    root.addEventListener("hta-escape", (event) => this.onEscape(event), { signal });
    for (const target of [el, anchor]) {
      target.addEventListener("keydown", (event) => this.onKey(event), { signal });
    }
    const firstControl =
      el.querySelector<HTMLElement>("[data-first]") ?? el.querySelector<HTMLElement>(CONTROLS);
    firstControl?.focus({ preventScroll: true });
  }

  /** Close the popover. Return false if it was not open. */
  close(giveFocusBack = true): boolean {
    const { el, openPopover } = this;
    if (openPopover === null) return false;
    const { root, anchor, focusBefore, listeners } = openPopover;
    const hadFocus = el.contains(activeElement(el));
    listeners.abort();
    this.openPopover = null;
    el.remove();
    render(null, el);
    aria(anchor, "expanded", false);
    if (hadFocus && giveFocusBack) {
      // Not every browser focuses a button when it is clicked.
      const isKept = focusBefore instanceof HTMLElement && root.contains(focusBefore);
      (isKept ? focusBefore : anchor).focus({ preventScroll: true });
    }
    return true;
  }

  private onKey(event: KeyboardEvent): void {
    if (event.key === "Escape") this.onEscape(event);
    else if (event.key === "Tab") this.onTab(event);
    // In a text field, Home and End move the cursor.
    else if (event.target instanceof HTMLInputElement && /^(Home|End)$/.test(event.key)) return;
    else {
      const items = [...this.el.querySelectorAll<HTMLElement>(".hta-menu-item")];
      moveFocus(event, items, "ArrowDown", "ArrowUp");
    }
  }

  /** Close the popover if Tab leaves it, as it is the root's last element, far from its button. */
  private onTab(event: KeyboardEvent): void {
    const controls = [...this.el.querySelectorAll<HTMLElement>(CONTROLS)];
    const edge = event.shiftKey ? controls[0] : controls.at(-1);
    const isInside = event.currentTarget === this.el;
    if (isInside && event.target !== edge && this.role !== "menu") return;
    // The button now has the focus. The browser moves on from there; with Shift, it must stay.
    this.close();
    if (event.shiftKey && isInside) event.preventDefault();
  }

  private onEscape(event: Event): void {
    event.preventDefault();
    event.stopImmediatePropagation();
    this.close();
  }
}

/** Place a popover in the visible part, below its anchor or, if there is more space, above it. */
function placePopover(anchor: HTMLElement, el: HTMLElement, root: HTMLElement): void {
  const visibleArea = visibleRect(root);
  const frame = root.getBoundingClientRect();
  // An anchor without a size is hidden, so use the corner of the page's visible part.
  const shown = anchor.getBoundingClientRect();
  const box =
    shown.width > 0
      ? shown
      : { left: visibleArea.right, top: visibleArea.top + 40, bottom: visibleArea.top + 40 };
  const below = visibleArea.bottom - EDGE_PX - (box.bottom + GAP_PX);
  const above = box.top - GAP_PX - (visibleArea.top + EDGE_PX);
  el.style.maxHeight = `${visibleArea.bottom - visibleArea.top - 2 * EDGE_PX}px`;
  const { offsetWidth: width, offsetHeight: height } = el;
  const wantedTop =
    height <= below || below >= above ? box.bottom + GAP_PX : box.top - GAP_PX - height;
  const top = clamp(wantedTop, visibleArea.top + EDGE_PX, visibleArea.bottom - EDGE_PX - height);
  const left = clamp(box.left, visibleArea.left + EDGE_PX, visibleArea.right - EDGE_PX - width);
  el.style.left = `${left - frame.left - root.clientLeft}px`;
  el.style.top = `${top - frame.top - root.clientTop}px`;
}

function clamp(value: number, min: number, max: number): number {
  return Math.max(min, Math.min(value, max));
}

function moveFocus(event: KeyboardEvent, items: HTMLElement[], next: string, before: string): void {
  const index = items.indexOf(event.target as HTMLElement);
  const to = { [next]: index + 1, [before]: index - 1, Home: 0, End: items.length - 1 }[event.key];
  if (to === undefined || items.length === 0) return;
  event.preventDefault();
  event.stopPropagation();
  items[(Math.max(to, -1) + items.length) % items.length]!.focus();
}

/** A button that opens the content drawn by `content` below itself. */
export function OpenerButton({
  content,
  role = "dialog",
  ...props
}: Omit<ButtonProps, "press"> & {
  role?: "dialog" | "menu";
  content(close: () => void, anchor: HTMLElement): VNode;
}) {
  const open = useRef<Popover | null>(null);
  const latestContent = useRef(content);
  latestContent.current = content;
  const aborter = useRef(new AbortController());
  useLayoutEffect(() => () => aborter.current.abort(), []);
  const press = ({ currentTarget }: MouseEvent): void => {
    const anchor = currentTarget as HTMLElement;
    const close = (): void => void open.current?.close();
    open.current ??= new Popover(
      () => anchor.closest<HTMLElement>(".hta-root")!,
      props.name ?? props.text ?? "",
      () => latestContent.current(close, anchor),
      aborter.current.signal,
      role,
    );
    open.current.toggle(anchor);
  };
  return <Button {...props} press={press} />;
}

export interface MenuItem {
  text: string;
  note?: string;
  /** Whether the item is selected; undefined for commands. */
  on?: boolean;
  /** Heading above the first item of a group. */
  group?: string;
  press(): void;
}

/**
 * A button with a menu. With `keep`, the menu stays open when an item is pressed. With `search`, a
 * text field filters the items. `onClose` is called after the menu closes.
 */
export function MenuButton({
  items,
  keep = false,
  search,
  onClose,
  ...buttonProps
}: Omit<ButtonProps, "press"> & {
  items(): readonly MenuItem[];
  keep?: boolean;
  /** Name of the text field. */
  search?: string;
  onClose?: () => void;
}) {
  const content = (close: () => void): VNode => (
    <Menu items={items} close={keep ? () => undefined : close} search={search} onClose={onClose} />
  );
  return (
    <OpenerButton
      {...buttonProps}
      role={search === undefined ? "menu" : "dialog"}
      content={content}
    />
  );
}

interface MenuProps {
  items(): readonly MenuItem[];
  close(): void;
  search: string | undefined;
  onClose: (() => void) | undefined;
}

function Menu({ items, close, search, onClose }: MenuProps) {
  useEffect(() => onClose, [onClose]);
  const filter = useSignal("");
  const isShown = ({ text, note = "", group = "" }: MenuItem): boolean =>
    `${text} ${note} ${group}`.toLowerCase().includes(filter.value.trim().toLowerCase());
  const shown = items().filter(isShown);
  // A menu must not contain a text field, so a menu with a search is a dialog with check boxes.
  const role = search === undefined ? "menuitemcheckbox" : "checkbox";
  return (
    <div class="hta-dash-menu">
      {search !== undefined && (
        <input
          type="search"
          class="hta-input"
          placeholder={search}
          aria-label={search}
          value={filter.value}
          onInput={({ currentTarget }) => (filter.value = currentTarget.value)}
        />
      )}
      {shown.map((item, index) => (
        <Fragment key={item.text}>
          {item.group !== shown[index - 1]?.group && <h4>{item.group}</h4>}
          <MenuRow item={item} role={role} close={close} />
        </Fragment>
      ))}
      {shown.length === 0 && <p class="hta-note">{`Nothing matches ${filter.value}.`}</p>}
    </div>
  );
}

/** An item's button. `role` applies to items that can be selected. */
function MenuRow(props: { item: MenuItem; role: "menuitemcheckbox" | "checkbox"; close(): void }) {
  const { text, note, on, press } = props.item;
  const onClick = (): void => {
    props.close();
    press();
  };
  return (
    <button
      type="button"
      class="hta-menu-item"
      role={on === undefined ? "menuitem" : props.role}
      aria-checked={on}
      onClick={onClick}
    >
      {on !== undefined && <span class="hta-menu-mark">{on && <Icon name="check" />}</span>}
      <span>{text}</span>
      {note !== undefined && <span class="hta-note">{note}</span>}
    </button>
  );
}

/** A toolbar with a single Tab stop. Arrows, Home and End move inside it, except in text fields. */
export function Toolbar(props: { name: string; class?: string; children: ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  const items = (): HTMLElement[] =>
    [...place.current!.querySelectorAll("button")].filter((el) => el.closest("[hidden]") === null);
  const keepOneTabStop = (current: EventTarget | null | undefined): void => {
    for (const el of items()) el.tabIndex = el === current ? 0 : -1;
  };
  useLayoutEffect(() => {
    const settle = (): void => {
      const all = items();
      keepOneTabStop(all.find(({ tabIndex }) => tabIndex === 0) ?? all[0]);
    };
    settle();
    // Components in the toolbar add, remove and hide buttons.
    const observer = new MutationObserver(settle);
    observer.observe(place.current!, {
      childList: true,
      subtree: true,
      attributeFilter: ["hidden"],
    });
    return () => observer.disconnect();
  }, []);
  return (
    <div
      ref={place}
      class={`hta-toolbar ${props.class ?? ""}`}
      role="toolbar"
      aria-label={props.name}
      onFocusIn={({ target }) => target instanceof HTMLButtonElement && keepOneTabStop(target)}
      onKeyDown={(event) =>
        event.target instanceof HTMLButtonElement &&
        moveFocus(event, items(), "ArrowRight", "ArrowLeft")
      }
    >
      {props.children}
    </div>
  );
}
