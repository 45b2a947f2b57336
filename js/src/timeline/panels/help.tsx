/** All keys and gestures on one sheet. */

import { CloseButton, Kbd } from "../../ui/controls";
import { HELP, type HelpGroup, type HelpLine } from "../keys";

export function Help({ more, close }: { more: readonly HelpGroup[]; close(): void }) {
  return (
    <div class="hta-help">
      <div class="hta-head">
        <h3>Keys and gestures</h3>
        <span class="hta-note hta-grow">
          They work while the timeline has the focus: click it, or Tab to it.
        </span>
        <CloseButton close={close} />
      </div>
      <div class="hta-help-groups">
        {[...more, ...HELP].map(({ title, lines }) => (
          <section key={title}>
            <h4>{title}</h4>
            <dl>
              {lines.map((line) => (
                <div class="hta-help-line">
                  <dt>
                    <KeyChords line={line} />
                  </dt>
                  <dd>{line.text}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </div>
  );
}

function KeyChords({ line: { keys } }: { line: HelpLine }) {
  const chorded = keys.some((chord) => chord.length > 1);
  const between = chorded ? <span class="hta-note"> / </span> : " ";
  return (
    <span>
      {keys.map((chord, at) => [
        at > 0 && between,
        <span class="hta-chord">
          {chord.map((key, index) => [index > 0 && "\u202f", <Kbd name={key} />])}
        </span>,
      ])}
    </span>
  );
}
