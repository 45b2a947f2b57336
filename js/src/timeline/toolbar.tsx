/** The toolbar of a timeline, with the filter for tracks. */

import { type ReadonlySignal, useComputed } from "@preact/signals";
import { Button, CutName, UndoRedo } from "../ui/controls";
import { formatCount, plural } from "../ui/formats";
import { Opener, Toolbar } from "../ui/menu";
import { FullButton, type FullWindow } from "../ui/placing";
import type { Context } from "./context";
import type { Command } from "./keys";
import { Chips, type Legend } from "./legend";
import { filterError, type Folding, type Rows } from "./rows";
import { type Search, SearchBox } from "./search";

interface ToolbarLook {
  ctx: Context;
  /** Default: the title of the job. */
  title: string | undefined;
  narrow: ReadonlySignal<boolean>;
  legend: Legend;
  search: Search;
  rows: Rows;
  folding: Folding;
  /** Null in a panel of a dashboard: the dashboard fills the window. */
  full: FullWindow | null;
  run(command: Command): void;
}

export function TimelineToolbar(look: ToolbarLook) {
  const { ctx, narrow, legend, search, rows, folding, full, run } = look;
  return (
    <Toolbar name="Timeline">
      <Name ctx={ctx} title={look.title} />
      <Chips legend={legend} narrow={narrow} />
      <SearchBox search={search} narrow={narrow} />
      <History ctx={ctx} run={run} />
      <Button
        text="Fit"
        name="Zoom to the selection, or to everything"
        keys="F"
        showKey
        press={() => run("zoom-selection")}
      />
      <ColourButton ctx={ctx} run={run} />
      <FoldButton folding={folding} run={run} />
      <FilterButton ctx={ctx} rows={rows} />
      <Button
        text="Export…"
        name="Export a window as a trace"
        keys="X"
        class="hta-export-button"
        press={() => run("export")}
      />
      {full !== null && <FullButton full={full} />}
      <Button
        text="?"
        name="Keys and gestures"
        keys="?"
        class="hta-help-button"
        press={() => run("help")}
      />
    </Toolbar>
  );
}

function Name({
  ctx: { scene },
  title = scene.title,
}: {
  ctx: Context;
  title: string | undefined;
}) {
  const { ranks, ranks_of_job: ofJob = "", events } = scene;
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

function History({ ctx, run }: Pick<ToolbarLook, "ctx" | "run">) {
  return <UndoRedo {...ctx.shared.steps} undo={() => run("undo")} redo={() => run("redo")} />;
}

function ColourButton({ ctx, run }: Pick<ToolbarLook, "ctx" | "run">) {
  const color = useComputed(() => ctx.shared.now.value.color).value;
  return (
    <Button
      icon="color"
      text={`by ${color}`}
      name="Colour by kind or by name"
      keys="C"
      class="hta-color"
      on={color === "name"}
      press={() => run("color")}
    />
  );
}

function FoldButton({ folding, run }: Pick<ToolbarLook, "folding" | "run">) {
  const { isOffered, isOn } = folding.state.value;
  return (
    <Button
      icon="fold"
      name="Fold similar ranks"
      keys="U"
      class={`hta-fold${isOn ? " hta-on" : ""}`}
      on={isOn}
      hidden={!isOffered}
      press={() => run("fold")}
    />
  );
}

/** Filter of the shown tracks by a regular expression. */
function FilterButton({ ctx, rows }: Pick<ToolbarLook, "ctx" | "rows">) {
  return (
    <Opener
      icon="filter"
      name="Filter tracks"
      class={rows.filter === "" ? "" : "hta-on"}
      content={(close) => <FilterForm ctx={ctx} rows={rows} close={close} />}
    />
  );
}

function FilterForm({ ctx, rows, close }: { ctx: Context; rows: Rows; close(): void }) {
  const text = rows.typed.value;
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
        {error ?? filterWords(ctx, rows)}
      </div>
    </div>
  );
}

function filterWords({ scene }: Context, { filter, now }: Rows): string {
  const rows = now.value;
  if (filter === "") {
    return "A regular expression over rank, process, track, host, and rank with track (“rank 5 stream 7”). Ignores case.";
  }
  const ranks = new Set(rows.map((row) => row.rank)).size;
  return `${ranks} of ${plural(scene.ranks.length, "rank")}, ${plural(rows.length, "row")} shown.`;
}
