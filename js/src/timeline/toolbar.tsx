/** A timeline's toolbar, with the track filter. */

import type { ReadonlySignal } from "@preact/signals";
import { Button, CutName, UndoRedoPair } from "../ui/controls";
import { formatCount, plural } from "../ui/formats";
import { OpenerButton, Toolbar } from "../ui/menu";
import { FullButton, type FullWindow } from "../ui/placing";
import type { Commands } from "./commands";
import type { TimelineContext } from "./context";
import type { FoldingController } from "./folding";
import { type Legend, LegendChips } from "./legend";
import { filterError, type RowsController } from "./rows";
import { SearchBox, type SearchController } from "./search";

interface ToolbarParts {
  readonly ctx: TimelineContext;
  readonly rows: RowsController;
  readonly folding: FoldingController;
  readonly search: SearchController;
  readonly legend: Legend;
  readonly commands: Commands;
  readonly fullWindow: FullWindow | null;
}

interface AppProps {
  app: ToolbarParts;
}

interface TimelineToolbarProps extends AppProps {
  /** Default: the job's title. */
  title: string | undefined;
  narrow: ReadonlySignal<boolean>;
}

export function TimelineToolbar({ app, title, narrow }: TimelineToolbarProps) {
  const { legend, search, fullWindow, commands } = app;
  return (
    <Toolbar name="Timeline">
      <JobName app={app} title={title} />
      <LegendChips legend={legend} narrow={narrow} />
      <SearchBox search={search} isNarrow={narrow} />
      <UndoRedoButtons app={app} />
      <span class="hta-pair hta-zoom-pair">
        <Button text="−" name="Zoom out" keys="S" press={() => commands.run("zoom-out")} />
        <Button text="+" name="Zoom in" keys="W" press={() => commands.run("zoom-in")} />
      </span>
      <Button
        text="Fit"
        name="Zoom to the selection, or to everything"
        keys="F"
        showKey
        press={() => commands.run("zoom-selection")}
      />
      <ColorButton app={app} />
      <FoldButton app={app} />
      <FilterButton app={app} />
      <Button
        text="Export…"
        name="Export a window as a trace"
        keys="X"
        class="hta-export-button"
        press={() => commands.run("export")}
      />
      {fullWindow !== null && <FullButton full={fullWindow} />}
      <Button
        text="?"
        name="Keys and gestures"
        keys="?"
        class="hta-help-button"
        press={() => commands.run("help")}
      />
    </Toolbar>
  );
}

function JobName({
  app,
  title = app.ctx.scene.title,
}: Pick<TimelineToolbarProps, "app" | "title">) {
  const { ranks, ranks_of_job: ofJob = "", events } = app.ctx.scene;
  return (
    <div class="hta-name">
      <b class="hta-title" title={title}>
        <CutName text={title} />
      </b>
      <span class="hta-facts">
        {ofJob === "" ? plural(ranks.length, "rank") : <span class="hta-warn-text">{ofJob}</span>}
        <span class="hta-if-spacious">{` · ${formatCount(events)} events`}</span>
      </span>
    </div>
  );
}

function UndoRedoButtons({ app: { ctx, commands } }: AppProps) {
  const [undo, redo] = [() => void commands.run("undo"), () => void commands.run("redo")];
  return <UndoRedoPair {...ctx.shared.steps} undo={undo} redo={redo} />;
}

function ColorButton({ app: { ctx, commands } }: AppProps) {
  const color = ctx.color.value;
  const { without_bounds: reason = "" } = ctx.scene;
  return (
    <Button
      icon="color"
      text={`by ${color}`}
      name={
        ctx.hasBounds
          ? "Colour by kind, by name, or by what limits the work"
          : `Colour by kind or by name${reason && ` (not by what limits the work: ${reason})`}`
      }
      keys="C"
      class="hta-color"
      on={color !== "kind"}
      press={() => commands.run("color")}
    />
  );
}

function FoldButton({ app: { folding, commands } }: AppProps) {
  const { isOffered, isOn } = folding.stateSignal.value;
  return (
    <Button
      icon="fold"
      name="Fold similar ranks"
      keys="U"
      class={`hta-fold${isOn ? " hta-on" : ""}`}
      on={isOn}
      hidden={!isOffered}
      press={() => commands.run("fold")}
    />
  );
}

function FilterButton({ app }: AppProps) {
  return (
    <OpenerButton
      icon="filter"
      name="Filter tracks"
      class={app.rows.filter === "" ? "" : "hta-on"}
      content={(close) => <FilterForm app={app} close={close} />}
    />
  );
}

function FilterForm({ app, close }: AppProps & { close(): void }) {
  const { rows } = app;
  const text = rows.filterText.value;
  const error = filterError(text);
  return (
    <div class="hta-filter">
      <label class="hta-label">Show tracks that match</label>
      <div class="hta-field-row">
        <input
          type="text"
          class={`hta-input${error === null ? "" : " hta-invalid"}`}
          placeholder="rank [0-3] stream 7"
          aria-label="Show only tracks that match this regular expression"
          aria-invalid={error !== null}
          spellcheck={false}
          autocomplete="off"
          value={text}
          onInput={({ currentTarget }) => rows.setFilter(currentTarget.value)}
          onKeyDown={({ key }) => key === "Enter" && close()}
        />
        <Button text="Show all" press={() => rows.setFilter("")} />
      </div>
      <div class="hta-note" aria-live="polite">
        {error ?? filterText(app)}
      </div>
    </div>
  );
}

function filterText({ ctx: { scene }, rows: { filter, stateSignal } }: ToolbarParts): string {
  const rows = stateSignal.value;
  if (filter === "") {
    return "A regular expression that is matched with rank, process, track, host, and rank with track (“rank 5 stream 7”). Case is ignored.";
  }
  const ranks = new Set(rows.map((row) => row.rank)).size;
  return `${ranks} of ${plural(scene.ranks.length, "rank")}, ${plural(rows.length, "row")} shown.`;
}
