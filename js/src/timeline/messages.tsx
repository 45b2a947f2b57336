/** Messages over the lanes: an empty window, no matches, a failed request. */

import type { ReadonlySignal, Signal } from "@preact/signals";
import { Button, type ButtonProps, Icon, Kbd } from "../ui/controls";

export interface CardMessage {
  title: string;
  text: string;
  buttons: readonly ButtonProps[];
}

/** A card at the center of the lanes: a sentence and buttons. The lanes around it stay usable. */
export function Card({ messageSignal }: { messageSignal: ReadonlySignal<CardMessage | null> }) {
  const { value: message } = messageSignal;
  return (
    <div class="hta-card" role="status" hidden={message === null}>
      <b>{message?.title}</b>
      <p>{message?.text}</p>
      <div class="hta-field-row">
        {message?.buttons.map((props) => (
          <Button key={props.text} {...props} showKey />
        ))}
      </div>
    </div>
  );
}

/** A hint for turning the wheel without Ctrl, which does not zoom. */
export function WheelHint({ shown }: { shown: ReadonlySignal<boolean> }) {
  return (
    <div class="hta-wheel-hint" role="status" hidden={!shown.value}>
      <Kbd name="Ctrl" /> + wheel zooms
    </div>
  );
}

/** A strip below the toolbar that shows the last failure. */
export function ErrorStrip({ shown }: { shown: Signal<CardMessage | null> }) {
  const { value: message } = shown;
  return (
    <div class="hta-error-strip" role="alert" hidden={message === null}>
      <Icon name="warn" />
      <b>{message?.title}</b>
      <span class="hta-error-message" title={message?.text}>
        {message?.text}
      </span>
      {message?.buttons.map((props) => (
        <Button key={props.text} {...props} />
      ))}
      <Button icon="close" name="Dismiss" press={() => (shown.value = null)} />
    </div>
  );
}
