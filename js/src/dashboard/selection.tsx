/** The selection in words, as removable chips and as Python code. */

import { type SelectionDimension, withoutDimension } from "../protocol/selection";
import type { PanelFrame, Scene, SelectionJson } from "../protocol/source";
import { deviceOf } from "../protocol/scene";
import { selectionCode } from "../timeline/text";
import { Button, Icon } from "../ui/controls";
import { formatCount, formatDuration, plural, wholeRunName } from "../ui/formats";
import { leftOutText, withPrefix, type RichText } from "../ui/text";
import type { DashContext } from "./context";
import { FindingButtons } from "./headline";
import { type Phrase, phrasesOf, windowText } from "./phrases";
import type { DashSelection } from "./selection_state";

export function SelectionPanel({ ctx }: { ctx: DashContext }) {
  const { selectionState, selectionTotals: totals } = ctx;
  const scene = ctx.scene.value;
  const selection = selectionState.selection.value;
  const phrases = phrasesOf(selection, (name) => ctx.shortName(name));
  const code = selectionCode(selection, scene.clock);
  const summary =
    phrases.length === 0 ? (
      <>
        {"The "}
        <b>{wholeRunName(scene)}</b>
        {`: ${wholeRunText(scene)}, all tracks. `}
      </>
    ) : (
      <>
        <b>{phrases.map(({ text }) => text).join(", ")}</b>
        {": "}
      </>
    );
  return (
    <div class="hta-selection">
      <header class="hta-pane-head">
        <h3>Selection</h3>
      </header>
      <p class="hta-sel-words">
        {summary}
        {totals !== null && scene.events > 0 && totalsText(totals, scene)}
      </p>
      <SelectionChips selectionState={selectionState} phrases={phrases} />
      <div class="hta-sel-code">
        <code title={code}>{code}</code>
        <Button
          icon="copy"
          name="Copy as Python"
          class="hta-copy-code"
          press={() => void ctx.copy(code, "Python")}
        />
      </div>
      <div class="hta-sel-doings">
        <FindingButtons ctx={ctx} isWindow={false} />
        <Button
          text="Export…"
          name="Export the selection as a trace"
          keys="X"
          press={({ currentTarget }) =>
            ctx.timeline.panels.openExport(currentTarget as HTMLElement)
          }
        />
      </div>
    </div>
  );
}

/** The parts of the selection, each with a button that removes it. */
function SelectionChips(props: { selectionState: DashSelection; phrases: readonly Phrase[] }) {
  const { selectionState, phrases } = props;
  const select = (selection: SelectionJson | null): void =>
    selectionState.select(selection, selectionState.ranksFrom);
  const remove = (part: SelectionDimension): void =>
    select(withoutDimension(selectionState.selection.value, part));
  return (
    <div
      class="hta-sel-chips"
      role="group"
      aria-label="Parts of the selection"
      hidden={phrases.length === 0}
    >
      {phrases.map(({ part, text, full }) => (
        <span key={part} class="hta-sel-chip" title={full}>
          <span>{text}</span>
          <button
            type="button"
            aria-label={`Remove ${text} from the selection`}
            title="Remove this part"
            onClick={() => remove(part)}
          >
            <Icon name="close" />
          </button>
        </span>
      ))}
      {phrases.length > 1 && <Button text="Clear all" keys="Esc" press={() => select(null)} />}
    </div>
  );
}

function wholeRunText({ part, range: [start, end], events, ranks }: Scene): string {
  const length = part ? windowText(start, end) : formatDuration(end - start);
  const window = events > 0 ? `${length}, ` : "";
  return `${window}${plural(ranks.length, "rank")}`;
}

function totalsText(sums: PanelFrame, scene: Scene): string {
  const number = (name: string): number => Number(sums.columns[name]?.[0] ?? 0);
  const device = deviceOf(scene);
  const hasGpu = scene.ranks.some(({ summary }) => summary.some(({ role }) => role === "gpu"));
  const [events, onDevices] = [number("events"), hasGpu ? number("device_events") : 0];
  const collectives = number("collectives");
  return [
    plural(events, "event"),
    onDevices > 0 ? `, ${formatCount(onDevices)} of them on ${device}s` : "",
    collectives > 0 ? `, in ${plural(collectives, "collective")}` : "",
    withPrefix(", ", leftOutText(sums)),
    ".",
    hasGpu && events > 0 && onDevices === 0
      ? ` None of the events is ${device} work, so charts of ${device} work are empty. Click an event, and select what it launched.`
      : "",
  ].join("");
}

export function selectionText(ctx: DashContext): RichText | null {
  const selection = ctx.selectionState.selection.value;
  if (selection === null) return null;
  const events = ctx.selectionTotals?.columns.events?.[0];
  const phrases = phrasesOf(selection, (name) => ctx.shortName(name)).map(({ text }) => text);
  const count = typeof events === "number" ? `, ${plural(events, "event")}` : "";
  return [{ strong: "Selection:" }, ` ${phrases.join(", ")}${count}.`];
}
