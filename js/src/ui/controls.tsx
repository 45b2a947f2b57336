/** Buttons, icons, swatches, keys and other small controls. */

import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Brief, Kind } from "../protocol/source";
import { activeElement, h, renderElement } from "./dom";
import { type RichText, wordEdge } from "./text";
import { applyTheme } from "./theme";

/** Return the name of a key on this keyboard. On Macs, ⌘ replaces Ctrl. */
function keyName(key: string): string {
  return /Mac|iP(hone|ad)/.test(navigator.userAgent) ? key.replace("Ctrl", "⌘") : key;
}

export function Kbd({ name }: { name: string }) {
  return <kbd class="hta-key">{keyName(name)}</kbd>;
}

export interface ButtonProps {
  /** Visible text. An icon button has only a name. */
  text?: string;
  icon?: IconName;
  /** Accessible name, also shown as a tooltip. */
  name?: string;
  /** The equivalent key. */
  keys?: string;
  /** Whether the key is shown on the button, in addition to the tooltip. */
  showKey?: boolean;
  class?: string;
  title?: string;
  /** Whether the switch is on; undefined if the button is not a switch. */
  on?: boolean;
  /** Whether the button currently has no effect. Unlike a disabled button, it can be focused. */
  off?: boolean;
  hidden?: boolean;
  children?: ComponentChildren;
  press: (event: MouseEvent) => void;
}

export function Button(props: ButtonProps) {
  const { text, keys, showKey = false, title, on, off } = props;
  const name = props.name ?? text ?? "";
  const hint = text === name ? undefined : name;
  // Speech control uses the visible text, so the accessible name must contain it.
  const visibleText = text?.match(/\p{L}[\p{L} ]*/u)?.[0] ?? "";
  const isNamed =
    !showKey && name !== text && name.toLowerCase().includes(visibleText.toLowerCase());
  return (
    <button
      type="button"
      class={`hta-button${text === undefined ? " hta-button-icon" : ""} ${props.class ?? ""}`}
      title={title ?? (keys === undefined ? hint : `${name} (${keyName(keys)})`)}
      aria-label={text === undefined || isNamed ? name : undefined}
      aria-keyshortcuts={keys?.replace("Ctrl", "Control").replace("⌫", "Backspace")}
      aria-pressed={on}
      aria-disabled={off}
      hidden={props.hidden}
      onClick={props.press}
    >
      {props.icon !== undefined && <Icon name={props.icon} />}
      {text !== undefined && <span class="hta-button-text">{text}</span>}
      {props.children}
      {showKey && keys !== undefined && <Kbd name={keys} />}
    </button>
  );
}

export function UndoRedoPair(history: {
  canUndo: boolean;
  canRedo: boolean;
  undo(): void;
  redo(): void;
}) {
  return (
    <div class="hta-pair">
      <Button icon="undo" name="Undo" keys="Ctrl+Z" off={!history.canUndo} press={history.undo} />
      <Button
        icon="redo"
        name="Redo"
        keys="Ctrl+Shift+Z"
        off={!history.canRedo}
        press={history.redo}
      />
    </div>
  );
}

/** Number of characters kept at the end of a truncated name, as kernel names differ there. */
const NAME_END_LENGTH = 12;
/** Words in parentheses that distinguish equal labels, and are never truncated. */
const DISAMBIGUATION = / \([^()]{1,30}\)$/u;

/** A name that, if too long, is truncated before its last characters. */
export function CutName({ text }: { text: string }) {
  const letters = Array.from(text);
  const usualLength = Math.min(NAME_END_LENGTH, Math.floor(letters.length / 2));
  const endLength = Math.max(usualLength, DISAMBIGUATION.exec(text)?.[0].length ?? 0);
  const isCut = letters.length > NAME_END_LENGTH;
  const cut = isCut ? wordEdge(letters, letters.length - endLength, 1) : letters.length;
  return (
    <span class="hta-cut-name">
      <span>{letters.slice(0, cut).join("")}</span>
      {isCut && <span>{letters.slice(cut).join("")}</span>}
    </span>
  );
}

/** A button that looks like a link, for use inside a sentence. */
export function Link(props: { text: ComponentChildren; title?: string; press(): void }) {
  return (
    <button type="button" class="hta-link" title={props.title} onClick={props.press}>
      {props.text}
    </button>
  );
}

/** Bars shown in place of content that is being computed. */
export function Skeleton({ class: name = "", lines }: { class?: string; lines: number }) {
  return (
    <div class={`hta-skeleton ${name}`} aria-hidden="true">
      {Array.from({ length: lines }, (_, index) => (
        <i key={index} />
      ))}
    </div>
  );
}

export function Swatch({ kind }: { kind: Kind }) {
  return <span class="hta-swatch" data-kind={kind} aria-hidden="true" />;
}

/** A row of buttons, one of which is selected. */
export function ChoiceButtons<T extends string>(props: {
  name: string;
  options: readonly (readonly [id: T, text: string, about?: string])[];
  chosen: T;
  data?: string;
  choose(id: T): void;
}) {
  const { name, options, chosen, data = "choice", choose } = props;
  return (
    <span class="hta-diff-choice" role="group" aria-label={name}>
      {options.map(([id, text, about]) => (
        <button
          key={id}
          type="button"
          title={about}
          aria-pressed={id === chosen}
          {...{ [`data-${data}`]: id }}
          onClick={() => choose(id)}
        >
          {text}
        </button>
      ))}
    </span>
  );
}

/** A list from which one option can be selected. */
export function Select(props: {
  name: string;
  class?: string;
  title?: string;
  options: readonly (readonly [id: string, text: string, isDisabled?: boolean])[];
  chosen: string;
  choose(id: string): void;
}) {
  const { name, class: className = "hta-input", title, options, chosen, choose } = props;
  return (
    <select
      class={className}
      aria-label={name}
      title={title}
      value={chosen}
      onChange={({ currentTarget }) => choose(currentTarget.value)}
    >
      {options.map(([id, text, isDisabled]) => (
        <option key={id} value={id} disabled={isDisabled}>
          {text}
        </option>
      ))}
    </select>
  );
}

/** A failed request, shown in place of its content. */
export function FailureNote(props: { title: string; error: Error; retry(): void }) {
  return (
    <div class="hta-failure" role="alert">
      <b>{props.title}</b>
      <div class="hta-failure-text">{props.error.message}</div>
      <Button text="Try again" press={props.retry} />
    </div>
  );
}

/** A sentence made of text, strong words and keys. */
export function RichTextSpan({ words }: { words: RichText }) {
  return (
    <>
      {words.map((piece) => {
        if (typeof piece === "string") return piece;
        return "strong" in piece ? <b>{piece.strong}</b> : <Kbd name={piece.key} />;
      })}
    </>
  );
}

export function Checkbox({ text, hint, on }: { text: string; hint: string; on: Signal<boolean> }) {
  return (
    <label class="hta-check" title={hint}>
      <input
        type="checkbox"
        checked={on.value}
        onChange={({ currentTarget }) => (on.value = currentTarget.checked)}
      />
      <span>{text}</span>
    </label>
  );
}

// Elements of controls, for code that does not use components.

export const renderButton = ({
  key,
  ...props
}: ButtonProps & { key?: string }): HTMLButtonElement =>
  renderElement(<Button keys={key} {...props} />) as HTMLButtonElement;

export const renderFailure = (title: string, error: Error, retry: () => void): HTMLElement =>
  renderElement(<FailureNote title={title} error={error} retry={retry} />);

// Small line icons in the color of their text, drawn here because fonts differ.

const ICON_PATHS = {
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.4 10.4 14 14",
  undo: "M6 3 2.5 6.5 6 10M2.5 6.5H10a3.5 3.5 0 0 1 0 7H6.5",
  redo: "M10 3l3.5 3.5L10 10M13.5 6.5H6a3.5 3.5 0 0 0 0 7h3.5",
  filter: "M2.5 3.5h11L9.5 8.5v4l-3 1.5V8.5z",
  close: "M4 4l8 8M12 4l-8 8",
  up: "M4 10l4-4 4 4",
  down: "M4 6l4 4 4-4",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  check: "M3 8.5 6.5 12 13 4.5",
  color:
    "M8 2.5v11M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 4.8l4.6 3M8 8.2l5 2.2M8 11.4l2.6 1.2",
  fold: "M2.5 8h11M8 1.5v4M6 3.8 8 5.8l2-2M8 14.5v-4M6 12.2 8 10.2l2 2",
  pin: "M6 2.5h4M6.7 2.5 6.2 7 4 9.5h8L9.8 7l-.5-4.5M8 9.5v4.5",
  full: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  warn: "M8 2.2 14.4 13.5H1.6zM8 6.2v3.6M8 11.4v.6",
} as const;

type IconName = keyof typeof ICON_PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="hta-icon" viewBox="0 0 16 16" width={14} height={14} aria-hidden="true">
      <path d={ICON_PATHS[name]} />
    </svg>
  );
}

// Copy text, even if the page may not use the clipboard API (plain HTTP).

/** Copy text to the clipboard. Return a status message. */
export async function copyAndReport(
  text: string,
  subject: string,
  inside: HTMLElement,
): Promise<string> {
  const done = await copyText(text, inside);
  return done ? `Copied ${subject}.` : "The browser does not allow copying here.";
}

async function copyText(text: string, inside: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // The clipboard was refused, or is missing over plain HTTP. Copying a selection may still work.
    return copyBySelection(text, inside);
  }
}

function copyBySelection(text: string, inside: HTMLElement): boolean {
  const before = activeElement(inside);
  const field = h("textarea", { class: "hta-hidden", "aria-hidden": "true", tabindex: -1 });
  field.value = text;
  inside.append(field);
  field.select();
  try {
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only way on plain http
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    field.remove();
    if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  }
}

// Elements used by several panels.

/** Copy text and show a message, in which `what` names the text. */
export type Copy = (text: string, what: string) => void;

export function CloseButton({ close, words = "" }: { close(): void; words?: string }) {
  return (
    <span class="hta-close">
      <span class="hta-note">{words}</span>
      <button
        type="button"
        class="hta-close-button"
        aria-label="Close, Esc"
        title="Close (Esc)"
        onClick={close}
      >
        <Kbd name="Esc" />
      </button>
    </span>
  );
}

/** Tabs for the event and the window, if both are selected. */
export function Tabs({ current, other }: { current: "event" | "area"; other(): void }) {
  return (
    <span class="hta-tabs" role="tablist">
      {(["event", "area"] as const).map((id) => (
        <button
          key={id}
          type="button"
          class="hta-tab"
          role="tab"
          aria-selected={id === current}
          onClick={() => id !== current && other()}
        >
          {id === "event" ? "Event" : "Selection"}
        </button>
      ))}
    </span>
  );
}

export interface FactRow {
  name: string;
  value: ComponentChildren;
  title?: string | undefined;
  /** Layout of the value. `line` truncates its link, `chain` its beginning; `wrapped` wraps. */
  className?: "chain" | "line" | "wrapped" | undefined;
}

export function FactList({ rows }: { rows: readonly FactRow[] }) {
  return (
    <dl class="hta-factlist">
      {rows.map(({ name, value, title, className }) => (
        <div class="hta-fact">
          <dt>{name}</dt>
          <dd title={title} class={className && `hta-${className}`}>
            {value}
          </dd>
        </div>
      ))}
    </dl>
  );
}

export function EventLink({ event, goTo }: { event: Brief; goTo(event: Brief): void }) {
  return (
    <Link text={event.short} title={`${event.name}\nGo to the event`} press={() => goTo(event)} />
  );
}

export function CopyButton(props: { copy: Copy; text: () => string; what: string }) {
  return (
    <Button
      icon="copy"
      name={`Copy ${props.what}`}
      class="hta-copy"
      press={() => props.copy(props.text(), props.what)}
    />
  );
}

/** Until the signal aborts, show why the widget failed in place of the widget. */
export function showFailurePanel(
  el: Element,
  title: string,
  error: Error,
  signal: AbortSignal,
): void {
  if (signal.aborted) return;
  const panel = renderElement(
    <div class="hta-broken" role="alert">
      <b>{title}</b>
      <div class="hta-broken-text">{error.message}</div>
    </div>,
  );
  applyTheme(panel, "light");
  el.replaceChildren(panel);
  signal.addEventListener("abort", () => el.replaceChildren(), { once: true });
}
