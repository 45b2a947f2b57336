/** A sheet with all keys, gestures and marks. */

import { CloseButton, Kbd } from "../../ui/controls";
import { HELP, type HelpGroup, type HelpLine } from "../keys";

/** Marks in the lanes that are not in the legend: class of the swatch, and meaning. */
const LANE_MARKS: readonly [swatch: string, text: string][] = [
  ["cell", "many events in one pixel: the height is the share of time that they cover"],
  ["host", "a host call: pale with a dark edge"],
  ["wait", "waiting for the last rank in a collective"],
  [
    "late",
    "from the arrival of the other ranks to the start of a late kernel; red if they wait for it",
  ],
  ["none", "no data of this rank, or less detail stored in the page than the view needs"],
  ["arrival", "below communication: an arrival after the median rank; the later, the stronger"],
  ["step", "start of a step"],
  ["selected", "selected or found; everything else is dimmed"],
];

export function Help(props: {
  more: readonly HelpGroup[];
  /** Whether keys work without the focus, as in the project's own pages. */
  followsPointer: boolean;
  close(): void;
}) {
  const { more, followsPointer, close } = props;
  return (
    <div class="hta-help">
      <div class="hta-head">
        <h3>Keys and gestures</h3>
        <span class="hta-note hta-grow">
          {followsPointer
            ? "They work for the timeline under the pointer."
            : "They work while the timeline has the focus: click it, or Tab to it."}
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
        <section>
          <h4>In the lanes</h4>
          <dl>
            {LANE_MARKS.map(([swatch, text]) => (
              <div class="hta-help-line hta-help-mark hta-named">
                <dt>
                  <i class={`hta-swatch hta-swatch-${swatch}`} aria-hidden="true" />
                </dt>
                <dd>{text}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
    </div>
  );
}

function KeyChords({ line: { keys } }: { line: HelpLine }) {
  const chorded = keys.some((chord) => chord.length > 1);
  const between = chorded ? <span class="hta-note"> / </span> : " ";
  return (
    <span>
      {keys.map((chord, chordIndex) => [
        chordIndex > 0 && between,
        <span class="hta-chord">
          {chord.map((key, index) => [index > 0 && "\u202f", <Kbd name={key} />])}
        </span>,
      ])}
    </span>
  );
}
