/** Toolbar of a dashboard and its form for saving a page. */

import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { PANELS } from "../facts/panels";
import { asError, isAbort } from "../protocol/source";
import { problemLines } from "../timeline/panels/problems";
import { Button, CutName, Icon, UndoRedoPair } from "../ui/controls";
import { formatBytes, formatDuration, plural } from "../ui/formats";
import { MenuButton, type MenuItem, OpenerButton, Toolbar } from "../ui/menu";
import { FullButton, type FullWindow } from "../ui/placing";
import type { DashContext } from "./context";
import { allExports } from "./save";

export function DashToolbar({ ctx, full }: { ctx: DashContext; full: FullWindow }) {
  const { selectionState, shownPanels, folding } = ctx;
  const scene = ctx.scene.value;
  const { format = "" } = ctx.jobFacts;
  /** The panel that the menu added last. */
  const added = useRef("");
  const { title, range, events, steps, truth } = scene;
  const problemCount = problemLines(scene).length;
  const isWarning = truth.level !== "ok";
  const isPart = (scene.ranks_of_job ?? "") !== "";
  const ranks = isPart ? scene.ranks_of_job! : plural(scene.ranks.length, "rank");
  const before = format === "" ? [] : [format];
  const after = [
    ...(events > 0 ? [plural(events, "event"), formatDuration(range[1] - range[0])] : []),
    ...(steps.length > 0 ? [plural(steps.length, "step")] : []),
  ];
  const jobScope = scene.part ? "Whole export" : "Whole job";
  const scope = selectionState.scope.value;
  const of =
    scope === "view" ? "In view" : selectionState.selection.value !== null ? "Selection" : jobScope;
  const scopes = (): MenuItem[] => [
    {
      text: "Selection",
      note: `the ${jobScope.toLowerCase()} if nothing is selected`,
      on: scope === "selection",
      press: () => selectionState.setScope("selection"),
    },
    {
      text: "In view",
      note: "the timeline's window, where none is selected",
      on: scope === "view",
      press: () => selectionState.setScope("view"),
    },
    { text: "Clear the selection", isParted: true, press: () => selectionState.select(null) },
  ];
  const panels = (): MenuItem[] =>
    PANELS.filter(({ id }) => ctx.offeredPanels.includes(id)).map(({ id, title: text, about }) => {
      const on = shownPanels.value.includes(id);
      const press = (): void => {
        ctx.showPanel(id, !on);
        added.current = on ? "" : id;
      };
      return { text, note: about, on, press };
    });
  const showAdded = (): void => {
    if (added.current !== "") ctx.bringIntoView(added.current);
    added.current = "";
  };
  return (
    <Toolbar class="hta-dash-toolbar" name="Dashboard">
      <div class="hta-name hta-grow">
        <b class="hta-title" title={title}>
          <CutName text={title} />
        </b>
        <span class="hta-facts" title={[...before, ranks, ...after].join(" · ")}>
          {before.map((fact) => `${fact} · `)}
          {isPart ? <span class="hta-warn-text">{ranks}</span> : ranks}
          {after.map((fact) => ` · ${fact}`)}
        </span>
        {problemCount > 0 && (
          <button
            type="button"
            class={`hta-badge hta-problem-badge ${isWarning ? "hta-warn" : ""}`}
            title={truth.text}
            onClick={({ currentTarget }) => ctx.timeline.panels.openProblems(currentTarget)}
          >
            {isWarning && <Icon name="warn" />}
            <span>{plural(problemCount, isWarning ? "problem" : "note")}</span>
          </button>
        )}
      </div>
      <UndoRedoPair
        {...selectionState.steps}
        undo={() => selectionState.undo()}
        redo={() => selectionState.redo()}
      />
      {folding.value.isOffered && (
        <Button
          icon="fold"
          name="Fold similar ranks"
          keys="U"
          class="hta-fold"
          on={folding.value.isOn}
          press={() => ctx.timeline.commands.run("fold")}
        />
      )}
      <MenuButton text={of} name={`Figures are of: ${of}`} items={scopes}>
        {" ▾"}
      </MenuButton>
      <MenuButton
        text="Panels"
        name="Choose which panels are shown"
        keep
        items={panels}
        onClose={showAdded}
      />
      <MenuButton
        text="Export…"
        name="Write the selection, a table or a chart"
        class="hta-exporting"
        items={() => allExports(ctx)}
      />
      {ctx.live !== null && (
        <OpenerButton
          text="Save HTML"
          name="Save all this as one page that needs no kernel"
          content={() => <SaveForm ctx={ctx} />}
        />
      )}
      <FullButton full={full} />
      <Button
        text="?"
        name="Keys and gestures"
        class="hta-help-button"
        press={({ currentTarget }) => ctx.timeline.help.toggle(currentTarget as HTMLElement)}
      />
    </Toolbar>
  );
}

// A form for the name of a file, which the kernel writes.

/** Max size of the page. MB */
const MAX_MB = 25;

function SaveForm({ ctx: { source, signal, scene } }: { ctx: DashContext }) {
  const name = scene.peek().title.replace(/[^\p{L}\p{N}._-]+/gu, "-") || "dashboard";
  const path = useSignal(`${name}.html`);
  const isBusy = useRef(false);
  const status = useSignal<VNode | null>(null);
  const save = async (): Promise<void> => {
    if (isBusy.current) return;
    isBusy.current = true;
    status.value = <span class="hta-note">Writing…</span>;
    try {
      const requested = { max_mb: MAX_MB, path: path.value.trim() };
      const { reply } = await source.ask("save_html", requested, signal);
      const size = reply.bytes === undefined ? "" : `, ${formatBytes(reply.bytes)}`;
      status.value = (
        <>
          <b class="hta-ok-text">{`Wrote ${reply.path}`}</b>
          {`${size}.`}
        </>
      );
    } catch (error) {
      const { message } = asError(error);
      status.value = isAbort(error) ? null : <span class="hta-error-text">{message}</span>;
    }
    isBusy.current = false;
  };
  return (
    <div class="hta-save-form">
      <p class="hta-note">
        One file that needs no kernel and no network; what does not fit into {MAX_MB} MB is left
        out.
      </p>
      {source.status === "none" ? (
        <p>Without a kernel it cannot be written.</p>
      ) : (
        <div class="hta-field-row">
          <input
            type="text"
            class="hta-input hta-path"
            aria-label="File to write, on the kernel's machine"
            spellcheck={false}
            value={path.value}
            onInput={({ currentTarget }) => (path.value = currentTarget.value)}
            onKeyDown={({ key }) => key === "Enter" && void save()}
          />
          <Button text="Write file" class="hta-primary" press={() => void save()} />
        </div>
      )}
      <div class="hta-result" role="status" aria-live="polite">
        {status.value}
      </div>
    </div>
  );
}
