/** The toolbar of a comparison, with its cautions. */

import { useSignal } from "@preact/signals";
import { asError } from "../protocol/source";
import { Button, ChoiceButtons, copyAndReport, Select, UndoRedoPair } from "../ui/controls";
import { plural } from "../ui/formats";
import { OpenerButton, Toolbar } from "../ui/menu";
import { FullButton, type FullWindow } from "../ui/placing";
import { comparisonLink } from "./address";
import type { AlignmentBase } from "./align";
import type { DiffContext } from "./context";
import { shortLabels } from "./frames";
import type { TimelinePair } from "./timelines";

interface DiffToolbarProps {
  ctx: DiffContext;
  /** Null if the runs have no events. */
  timelines: TimelinePair | null;
  full: FullWindow;
  travel(direction: "undo" | "redo"): void;
}

const BASE_CHOICES: readonly (readonly [id: AlignmentBase, text: string, about: string])[] = [
  ["steps", "steps", "Align the starts of each pair of steps"],
  ["first_step", "start", "Align the starts of the first steps"],
  ["collectives", "collectives", "Align the starts of each pair of collectives"],
  ["absolute", "absolute", "Use each run's own times"],
  ["scaled", "scaled", "Stretch the shorter run to the length of the longer one"],
];

export function DiffToolbar(props: DiffToolbarProps) {
  const { ctx, timelines, full } = props;
  const { swapped } = ctx;
  return (
    <Toolbar class="hta-dash-toolbar" name="Comparison">
      <RunNames ctx={ctx} />
      <div class="hta-diff-controls">
        {timelines !== null && <LinkControls {...props} timelines={timelines} />}
        <Button
          text="Swap"
          name="Swap: before becomes after"
          press={() => ctx.saveTrait("swapped", !swapped.value)}
        />
        {(timelines !== null || ctx.options.live !== null) && (
          <OpenerButton
            text="Export…"
            name="Export… both runs as one trace, or a window"
            content={(_, anchor) => (
              <DiffExportSheet ctx={ctx} timelines={timelines} anchor={anchor} />
            )}
          />
        )}
        <FullButton full={full} />
        {timelines !== null && (
          <Button
            text="?"
            name="Keys and gestures"
            keys="?"
            class="hta-diff-help"
            press={({ currentTarget }) => timelines.toggleHelp(currentTarget as HTMLElement)}
          />
        )}
      </div>
    </Toolbar>
  );
}

function RunNames({ ctx }: { ctx: DiffContext }) {
  const { labels: runLabels, facts, cautions } = ctx.about;
  const labels = ctx.inOrder(runLabels);
  return (
    <div class="hta-name hta-grow">
      <b class="hta-title" title={labels.join(" → ")}>
        {shortLabels(labels).join(" → ")}
      </b>
      <span class="hta-facts">{facts}</span>
      {cautions.length > 0 && <Cautions texts={cautions.map(({ text }) => text)} />}
    </div>
  );
}

/** Controls for both timelines: alignment, ranks, history, link. */
function LinkControls(props: DiffToolbarProps & { timelines: TimelinePair }) {
  const { ctx, timelines, travel } = props;
  const { about, coupled } = ctx;
  const { canUndo, canRedo } = timelines.link.history;
  return (
    <>
      <AlignChoice ctx={ctx} />
      {about.rank_pairs.length > 1 && <RankPairs ctx={ctx} />}
      <UndoRedoPair
        canUndo={canUndo}
        canRedo={canRedo}
        undo={() => travel("undo")}
        redo={() => travel("redo")}
      />
      <Button
        text="Linked"
        name="Linked: zoom and select on both timelines together"
        class={`hta-diff-link${coupled.value ? " hta-on" : ""}`}
        on={coupled.value}
        press={() => ctx.saveTrait("coupled", !coupled.value)}
      />
    </>
  );
}

/** The alignment selector: buttons, or a list if the toolbar is narrow. */
function AlignChoice({ ctx }: { ctx: DiffContext }) {
  const { value: base } = ctx.base;
  return (
    <div class="hta-diff-align">
      <span class="hta-note">Align</span>
      <ChoiceButtons
        name="Align"
        data="base"
        options={BASE_CHOICES}
        chosen={base}
        choose={(alignment) => ctx.saveTrait("align", alignment)}
      />
      <Select
        name="Align"
        class="hta-diff-bases-narrow"
        options={BASE_CHOICES.map(([id, text]) => [id, text])}
        chosen={base}
        choose={(alignment) => ctx.saveTrait("align", alignment)}
      />
    </div>
  );
}

function Cautions({ texts }: { texts: readonly string[] }) {
  const label = `⚠ ${plural(texts.length, "caution")}`;
  return (
    <OpenerButton
      text={label}
      name={`${label}: limits of the comparison`}
      title={texts.join("\n")}
      class="hta-badge hta-warn hta-problem-badge"
      content={() => (
        <ul class="hta-diff-cautions">
          {texts.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      )}
    />
  );
}

function RankPairs({ ctx }: { ctx: DiffContext }) {
  const { rank_pairs: pairs, held_pairs: heldPairs, by_rank_means: means } = ctx.about;
  const options = pairs.map((pair, index) => {
    const [before, after] = ctx.inOrder(pair);
    const text = before === after ? `rank ${before}` : `rank ${before} → rank ${after}`;
    const isMissing = heldPairs !== undefined && !heldPairs.includes(index);
    return [String(index), isMissing ? `${text} (not in this page)` : text, isMissing] as const;
  });
  const allText = means ? "all ranks (means)" : `all ${pairs.length} pairs of ranks`;
  return (
    <Select
      name="Ranks"
      class="hta-diff-pairs"
      title="Ranks for figures and timelines"
      options={[["", allText], ...options]}
      chosen={String(ctx.pair.value ?? "")}
      choose={(id) => ctx.saveTrait("pair", id === "" ? null : Number(id))}
    />
  );
}

const FILE_CHOICES = [
  ["export_pair", "Write both as one trace", "pair.trace.json.gz"],
  ["save_html", "Save this page", "diff.html"],
] as const;

function DiffExportSheet(props: {
  ctx: DiffContext;
  timelines: TimelinePair | null;
  anchor: HTMLElement;
}) {
  const { ctx, timelines, anchor } = props;
  const { source, live, signal: abortSignal } = ctx.options;
  const status = useSignal("");
  const write = async (op: (typeof FILE_CHOICES)[number][0], path: string): Promise<void> => {
    status.value = "Writing…";
    try {
      const { reply } = await source.ask(op, { path }, abortSignal);
      status.value = `Written: ${reply.path}`;
    } catch (error) {
      status.value = asError(error).message;
    }
  };
  // Files are written by the kernel.
  const files = FILE_CHOICES.filter(
    ([op]) => live !== null && (op === "save_html" || timelines !== null),
  );
  const link = comparisonLink(ctx);
  const copyLink = (text: string): void =>
    void copyAndReport(text, "the link", anchor).then((message) => (status.value = message));
  return (
    <div class="hta-save-form">
      {link !== null && (
        <div class="hta-diff-file">
          <Button text="Copy link to this view" press={() => copyLink(link)} />
        </div>
      )}
      {files.map(([op, label, name]) => (
        <FileField key={op} label={label} name={name} press={(path) => void write(op, path)} />
      ))}
      {timelines !== null && (
        <div class="hta-diff-file">
          <Button text="Window of before…" press={() => timelines.openExport(0, anchor)} />
          <Button text="Window of after…" press={() => timelines.openExport(1, anchor)} />
        </div>
      )}
      <p class="hta-note" aria-live="polite">
        {status.value}
      </p>
    </div>
  );
}

function FileField(props: { label: string; name: string; press(path: string): void }) {
  const path = useSignal(props.name);
  return (
    <div class="hta-diff-file">
      <input
        type="text"
        class="hta-path"
        aria-label={props.label}
        value={path.value}
        onInput={({ currentTarget }) => (path.value = currentTarget.value)}
      />
      <Button text={props.label} press={() => props.press(path.value)} />
    </div>
  );
}
