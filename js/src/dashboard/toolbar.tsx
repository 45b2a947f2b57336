/** Toolbar of a dashboard and its form for saving a page. */

import { type ReadonlySignal, useSignal } from "@preact/signals";
import { PANELS } from "../facts/panels";
import { asError, isAbort, type Requests, type Scene, type Source } from "../protocol/source";
import { problemLines } from "../timeline/panels/problems";
import type { FoldingNow } from "../timeline/rows";
import { Button, CutName, Icon, UndoRedo } from "../ui/controls";
import { formatBytes, formatDuration, plural } from "../ui/formats";
import { MenuButton, type MenuItem, Opener, Toolbar } from "../ui/menu";
import { FullButton, type FullWindow } from "../ui/placing";
import type { Choosing } from "./selection";

interface DashToolbarLook {
  scene: Scene;
  format: string;
  choosing: Choosing;
  /** Ids of the shown panels, and of those that the job has data for; null for all. */
  shown: ReadonlySignal<readonly string[]>;
  offered: readonly string[] | null;
  full: FullWindow;
  folding: ReadonlySignal<FoldingNow>;
  fold(): void;
  showPanel(id: string, on: boolean): void;
  /** Bring the panel that was added last into view. */
  showAdded(): void;
  exports(): MenuItem[];
  /** Null in saved pages, which cannot write themselves. */
  form: SaveLook | null;
  help(anchor: HTMLElement): void;
  openProblems(anchor: HTMLElement): void;
}

export function DashToolbar(look: DashToolbarLook) {
  const { scene, choosing, shown, offered, folding } = look;
  const { title, range, events, steps, truth } = scene;
  const kinds = problemLines(scene).length;
  const warn = truth.level !== "ok";
  const isPart = (scene.ranks_of_job ?? "") !== "";
  const ranks = isPart ? scene.ranks_of_job! : plural(scene.ranks.length, "rank");
  const before = look.format === "" ? [] : [look.format];
  const after = [
    ...(events > 0 ? [plural(events, "event"), formatDuration(range[1] - range[0])] : []),
    ...(steps.length > 0 ? [plural(steps.length, "step")] : []),
  ];
  const whole = scene.part ? "Whole export" : "Whole job";
  const scope = choosing.scope.value;
  const of = scope === "view" ? "In view" : choosing.selection.value !== null ? "Selection" : whole;
  const scopes = (): MenuItem[] => [
    {
      text: "Selection",
      note: `the ${whole.toLowerCase()} if nothing is selected`,
      on: scope === "selection",
      press: () => choosing.setScope("selection"),
    },
    {
      text: "In view",
      note: "the timeline's window, where none is selected",
      on: scope === "view",
      press: () => choosing.setScope("view"),
    },
    { text: "Clear the selection", isParted: true, press: () => choosing.select(null) },
  ];
  const panels = (): MenuItem[] =>
    PANELS.filter(({ id }) => offered?.includes(id) ?? true).map(({ id, title: text, about }) => {
      const on = shown.value.includes(id);
      return { text, note: about, on, press: () => look.showPanel(id, !on) };
    });
  return (
    <Toolbar class="hta-dash-toolbar" name="Dashboard">
      <div class="hta-name hta-grow">
        <b class="hta-title" title={title}>
          <CutName text={title} />
        </b>
        <span class="hta-facts" title={[...before, ranks, ...after].join(" · ")}>
          {before.map((one) => `${one} · `)}
          {isPart ? <span class="hta-warn-text">{ranks}</span> : ranks}
          {after.map((one) => ` · ${one}`)}
        </span>
        {kinds > 0 && (
          <button
            type="button"
            class={`hta-badge hta-problem-badge ${warn ? "hta-warn" : ""}`}
            title={truth.text}
            onClick={({ currentTarget }) => look.openProblems(currentTarget)}
          >
            {warn && <Icon name="warn" />}
            <span>{plural(kinds, warn ? "problem" : "note")}</span>
          </button>
        )}
      </div>
      <UndoRedo {...choosing.steps} undo={() => choosing.undo()} redo={() => choosing.redo()} />
      {folding.value.isOffered && (
        <Button
          icon="fold"
          name="Fold similar ranks"
          keys="U"
          class="hta-fold"
          on={folding.value.isOn}
          press={() => look.fold()}
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
        closed={look.showAdded}
      />
      <MenuButton
        text="Export…"
        name="Write the selection, a table or a chart"
        class="hta-exporting"
        items={look.exports}
      />
      {look.form !== null && (
        <Opener
          text="Save HTML"
          name="Save all this as one page that needs no kernel"
          content={() => <SaveForm {...look.form!} />}
        />
      )}
      <FullButton full={look.full} />
      <Button
        text="?"
        name="Keys and gestures"
        class="hta-help-button"
        press={({ currentTarget }) => look.help(currentTarget as HTMLElement)}
      />
    </Toolbar>
  );
}

// A form for the name of a file, which the kernel writes.

export interface SaveLook {
  source: Source;
  signal: AbortSignal;
  request: Omit<Requests["save_html"], "path">;
  path: string;
  about: string;
}

function SaveForm({ source, signal, request, path: first, about }: SaveLook) {
  const path = useSignal(first);
  const busy = useSignal(false);
  const said = useSignal<{ wrote: string; size: string } | { error: string } | null>(null);
  const run = async (): Promise<void> => {
    if (busy.value) return;
    busy.value = true;
    said.value = null;
    try {
      const asked = { ...request, path: path.value.trim() };
      const { reply } = await source.ask("save_html", asked, signal);
      const size = reply.bytes === undefined ? "" : `, ${formatBytes(reply.bytes)}`;
      said.value = { wrote: reply.path, size };
    } catch (error) {
      if (!isAbort(error)) said.value = { error: asError(error).message };
    }
    busy.value = false;
  };
  const what = said.value;
  return (
    <div class="hta-save-form">
      <p class="hta-note">{about}</p>
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
            onKeyDown={({ key }) => key === "Enter" && void run()}
          />
          <Button text="Write file" class="hta-primary" press={() => void run()} />
        </div>
      )}
      <div class="hta-result" role="status" aria-live="polite">
        {busy.value && <span class="hta-note">Writing…</span>}
        {what !== null && "wrote" in what && (
          <>
            <b class="hta-ok-text">{`Wrote ${what.wrote}`}</b>
            {what.size}.
          </>
        )}
        {what !== null && "error" in what && <span class="hta-error-text">{what.error}</span>}
      </div>
    </div>
  );
}
