/** Messages over the lanes: nothing in this window, nothing matches, a failed request. */

import type { ReadonlySignal, Signal } from "@preact/signals";
import { Button, type ButtonLook, Icon } from "../ui/controls";

export interface Message {
  title: string;
  text: string;
  buttons: readonly ButtonLook[];
}

/** A card in the middle of the lanes: a sentence and buttons. Lanes stay usable around it. */
export function Card({ shown }: { shown: ReadonlySignal<Message | null> }) {
  const { value: message } = shown;
  return (
    <div class="hta-card" role="status" hidden={message === null}>
      <b>{message?.title}</b>
      <p>{message?.text}</p>
      <div class="hta-field-row">
        {message?.buttons.map((look) => (
          <Button key={look.text} {...look} showKey />
        ))}
      </div>
    </div>
  );
}

/** A strip under the toolbar for requests that failed: text here, not only in the console. */
export function ErrorStrip({ shown }: { shown: Signal<Message | null> }) {
  const { value: message } = shown;
  return (
    <div class="hta-error-strip" role="alert" hidden={message === null}>
      <Icon name="warn" />
      <b>{message?.title}</b>
      <span class="hta-error-message" title={message?.text}>
        {message?.text}
      </span>
      {message?.buttons.map((look) => (
        <Button key={look.text} {...look} />
      ))}
      <Button icon="close" name="Dismiss" press={() => (shown.value = null)} />
    </div>
  );
}
