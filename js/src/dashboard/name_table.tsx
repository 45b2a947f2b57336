/** A table of names in the dashboard. A click selects a name; a text field filters the names. */

import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { isSameJson } from "../connection/store";
import { FULL_SELECTION, togglePick } from "../protocol/selection";
import type { CellValue, ChartSelection, PanelFrame } from "../protocol/source";
import { formatCount } from "../ui/formats";
import { FilterField, Table, type TableColumn } from "../ui/table";
import { disambiguate, joinSentences, leftOutText } from "../ui/text";
import type { DashContext } from "./context";

export type RowReader = (column: string) => CellValue;
export type DashColumn = TableColumn<RowReader>;

export interface TableSpec {
  /** The noun for rows that are not names. */
  rows?: string;
  title: string;
  /** Return the description. The figures cover `ranks` (null: all); `device` is a word for GPUs. */
  about(frame: PanelFrame, ranks: readonly number[] | null, device: string): string;
  columns(frame: PanelFrame, device: string): readonly DashColumn[];
  /** Return the text that follows the number of omitted names. */
  foot?(frame: PanelFrame): string;
  /** Whether rows are rank files and a click selects the ranks. */
  selectsRanks?: boolean;
  /** Whether rows list their events and a click selects those. */
  selectsEvents?: boolean;
}

/** The frame of a panel, and the selection to mark in it. */
export interface PanelNumbers {
  frame: PanelFrame;
  chosen: ChartSelection;
}

/** The prefix of autograd operators, which is long and does not identify them. */
const AUTOGRAD_PREFIX = /^autograd::engine::evaluate_function: /;

/** A table of names. A click selects a name; a click with Ctrl adds the name to the selection. */
export function NameTable({
  ctx,
  id,
  spec,
  tools,
  maxRows,
  frame,
  chosen: selection,
}: PanelNumbers & {
  ctx: DashContext;
  id: string;
  spec: TableSpec;
  tools: VNode | null;
  maxRows: number;
}) {
  const filter = useSignal("");
  const rows = useMemo(() => rowReaders(frame), [frame]);
  const { selectionState } = ctx;
  const chosenEvents = new Set(selectionState.selection.value?.ids?.map(String));
  const isOn = (row: RowReader): boolean => {
    if (!spec.selectsEvents) return selection.names?.includes(String(row("name"))) ?? false;
    const events = eventsOf(row).map(String);
    return events.length > 0 && events.every((event) => chosenEvents.has(event));
  };
  const press = (row: RowReader, add: boolean): void => {
    if (spec.selectsEvents) {
      chooseEvents(ctx, id, eventsOf(row), isOn(row), add);
      return;
    }
    const names = togglePick(selection.names, String(row("name")), add);
    const brush = spec.selectsRanks ? { ranks: ranksOfNames(frame, names) } : { names };
    selectionState.brush(id, brush);
  };
  return (
    <div class="hta-name-table">
      <header class="hta-pane-head">
        <h3>{spec.title}</h3>
        {tools}
        <FilterField name={`Filter ${spec.title}`} set={(text) => (filter.value = text)} />
      </header>
      <p class="hta-about">
        {joinSentences(spec.about(frame, selection.ranks, ctx.device), leftOutText(frame))}
      </p>
      <Table
        name={spec.title}
        columns={spec.columns(frame, ctx.device)}
        rows={rows}
        value={(row, column) => row(column)}
        filter={filter.value}
        namesOf={(row) => ["name", "short", "label"].map((column) => String(row(column) ?? ""))}
        isOn={isOn}
        // If only names in other tables are selected, this table has no faint rows.
        isFaint={rows.some(isOn)}
        press={press}
        rowNoun={spec.rows}
        maxRows={maxRows}
        foot={(drawn) => footText(spec, frame, drawn)}
      />
    </div>
  );
}

/** Return a row's events as pairs of rank and ID; none if there are too many to list. */
function eventsOf(row: RowReader): [rank: number, id: number][] {
  const text = String(row("events") ?? "");
  return text === "" ? [] : (JSON.parse(text) as [number, number][]);
}

/** Select a row's events, or deselect them. With `add`, keep the other selected events. */
function chooseEvents(
  { selectionState, timeline }: DashContext,
  id: string,
  events: [number, number][],
  isOn: boolean,
  add: boolean,
): void {
  if (events.length === 0) {
    timeline.status.flashMessage(["This row has too many events to select by a click."]);
    return;
  }
  const selection = selectionState.selection.value ?? FULL_SELECTION;
  const pressed = new Set(events.map(String));
  const others = add ? (selection.ids ?? []).filter((event) => !pressed.has(String(event))) : [];
  const ids = isOn ? others : [...others, ...events];
  const next = { ...selection, ids: ids.length === 0 ? null : ids };
  selectionState.select(isSameJson(next, FULL_SELECTION) ? null : next, id);
}

/** Return the text below the last row, which counts the omitted names. */
function footText(spec: TableSpec, frame: PanelFrame, drawn: number): string {
  const left = Number(frame.attrs.total ?? frame.rows) - frame.rows;
  if (spec.foot === undefined || left <= 0 || drawn < frame.rows) return "";
  return `${formatCount(left)} ${spec.foot(frame)}.`;
}

/** Return a reader for each row. Equal short forms of different names are made distinct. */
function rowReaders({ columns }: PanelFrame): RowReader[] {
  const names = (columns.name ?? []).map(String);
  const short = (columns.short ?? names).map((name) =>
    String(name).replace(AUTOGRAD_PREFIX, "evaluate "),
  );
  const labels = disambiguate(short, names);
  return names.map(
    (_, row) => (column) => (column === "short" ? labels[row] : columns[column]?.[row]) ?? null,
  );
}

function ranksOfNames(frame: PanelFrame, names: readonly string[] | null): number[] | null {
  if (names === null) return null;
  const ranks = new Set<number>();
  frame.columns.name?.forEach((name, row) => {
    if (!names.includes(String(name))) return;
    const keys = frame.columns.keys?.[row];
    const rank = frame.columns.rank?.[row];
    if (typeof rank === "number") ranks.add(rank);
    if (typeof keys !== "string" || keys === "") return;
    for (const key of keys.split(",")) ranks.add(Number(key));
  });
  return ranks.size === 0 ? null : [...ranks];
}
