/** The panel of a selected window or set of events: totals per kind and per name. */

import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import {
  nextOrder,
  type TotalsColumn,
  type NameSums,
  type TotalsOrder,
  sortTotals,
  type Sums,
  type Totals,
} from "../../protocol/source";
import {
  Button,
  CloseButton,
  CopyButton,
  CutName,
  FailureNote,
  Swatch,
  Tabs,
} from "../../ui/controls";
import { formatCount, formatDuration, formatExact, plural } from "../../ui/formats";
import { toCsv, FilterField } from "../../ui/table";
import { kindName } from "../../ui/text";
import { rowsText, selectionCode, selectionHead } from "../text";
import type { PanelControl } from "./control";

const COLUMN_HEADS: readonly [TotalsColumn, string, string][] = [
  ["sum", "total", "sum of durations"],
  ["count", "count", "events that overlap the window"],
  ["mean", "mean", "mean duration"],
  ["min", "min", "shortest"],
  ["max", "max", "longest"],
];

export function AreaPanel({ panels }: { panels: PanelControl }) {
  const { ctx, nav, picking } = panels.app;
  const { value: selection } = picking.selectionSignal;
  if (selection === null) return null;
  const { scene } = ctx;
  const { totals } = panels.totalsSignal.value;
  const zoom = (): void => nav.toggleZoom(picking.windowTarget() ?? picking.target());
  const { query } = selection;
  const windowed = selection.start_ns !== null || selection.end_ns !== null;
  const scopeTexts = [
    totals === null ? "" : plural(totals.events, "event"),
    selection.ids === null ? rowsText(selection, scene) : "",
    windowed ? "times within the window" : "",
  ];
  return (
    <div class="hta-panel hta-area">
      <div class="hta-head hta-area-head">
        <h3>{selectionHead(selection, scene)}</h3>
        <span class="hta-note hta-grow">
          {scopeTexts.filter(Boolean).join(" · ")}
          {query !== null && <code title={query}>{` ${query}`}</code>}
        </span>
        {picking.active && <Tabs current="area" other={() => panels.show("event")} />}
        <Button text="Zoom" keys="F" showKey press={zoom} />
        <Button
          text="Copy as Python"
          press={() => panels.copy(selectionCode(selection, scene.clock), "Python")}
        />
        <Button
          text="Export selection…"
          keys="X"
          press={({ currentTarget }) => panels.openExport(currentTarget as HTMLElement)}
        />
        <Button text="Clear" press={() => picking.clearAll()} />
        <CloseButton close={() => panels.close()} />
      </div>
      {/* Another selection is shown from its top. */}
      <div key={JSON.stringify(selection)} class="hta-tables">
        <AreaPanelBody panels={panels} />
      </div>
    </div>
  );
}

function AreaPanelBody({ panels }: { panels: PanelControl }) {
  const { tables } = panels;
  const { totals, error } = panels.totalsSignal.value;
  if (error !== null) {
    const retry = (): void => panels.askTotals();
    return <FailureNote title="The totals cannot be shown" error={error} retry={retry} />;
  }
  if (totals === null) return <p class="hta-note hta-pad">Computing…</p>;
  if (totals.events === 0) return <p class="hta-pad">No events in this selection.</p>;
  const kinds = sortTotals(totals.kinds, tables.kinds.value, (row) => kindName(row.kind));
  return (
    <>
      <SumsTable which="kinds" title="kind" order={tables.kinds}>
        {kinds.map((row) => (
          <SumsRow key={row.kind} row={row} maxTime={maxTimeOf(kinds)}>
            {` ${kindName(row.kind)}`}
          </SumsRow>
        ))}
      </SumsTable>
      <NamesTable panels={panels} totals={totals} />
    </>
  );
}

function NamesTable({ panels, totals }: { panels: PanelControl; totals: Totals }) {
  const { tables, app, copy } = panels;
  const { names, names_total: all } = totals;
  const shown = tables.matchingNames(totals);
  const maxTime = maxTimeOf(names);
  const isPart = all > names.length;
  const countText = `${formatCount(names.length)} of ${plural(all, "name")}`;
  const setFilter = (text: string): void => void (tables.filter.value = text);
  const csv = (): string => csvOfNames(tables.matchingNames(totals));
  const tools = (
    <>
      <FilterField name="Filter names" text={tables.filter.value} set={setFilter} />
      <CopyButton copy={copy} text={csv} what="the table as CSV" />
    </>
  );
  return (
    <SumsTable
      which="names"
      title={isPart ? "name, the longest" : "name"}
      order={tables.names}
      tools={tools}
      foot={isPart ? `${countText}: those with the most time.` : ""}
    >
      {shown.map((row) => (
        <SumsRow key={`${row.kind} ${row.name}`} row={row} maxTime={maxTime}>
          {" "}
          <button
            type="button"
            class="hta-link"
            title={`${row.name}\nSearch this name`}
            onClick={() => app.search.search(row.name)}
          >
            <CutName text={row.short} />
          </button>
        </SumsRow>
      ))}
      {shown.length === 0 && (
        <tr>
          <td colSpan={COLUMN_HEADS.length + 1}>No name matches this filter.</td>
        </tr>
      )}
    </SumsTable>
  );
}

function SumsTable(props: {
  which: "kinds" | "names";
  title: string;
  order: Signal<TotalsOrder>;
  tools?: ComponentChildren;
  foot?: string;
  children: ComponentChildren;
}) {
  const { which, title, order, tools, foot = "" } = props;
  const { column: by, descending } = order.value;
  const direction = descending ? "descending" : "ascending";
  const heads: typeof COLUMN_HEADS = [["name", title, "alphabetically"], ...COLUMN_HEADS];
  return (
    <div
      class={`hta-scroll hta-table-${which}`}
      tabIndex={0}
      role="group"
      aria-label={`Totals by ${title}`}
    >
      <table class="hta-table">
        <thead>
          <tr>
            {heads.map(([column, text, hint]) => (
              <th
                key={column}
                scope="col"
                class={COLUMN_CLASSES[column] ?? "hta-number"}
                aria-sort={column === by ? direction : undefined}
              >
                <button
                  type="button"
                  class="hta-sort"
                  data-column={column}
                  title={`${hint}; click to sort`}
                  onClick={() => (order.value = nextOrder(order.value, column))}
                >
                  {text}
                  <span class="hta-sort-mark" aria-hidden="true">
                    {column === by && (descending ? " ↓" : " ↑")}
                  </span>
                </button>
                {column === "name" && tools}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
      {foot !== "" && <p class="hta-note hta-pad">{foot}</p>}
    </div>
  );
}

const COLUMN_CLASSES: Partial<Record<TotalsColumn, string>> = {
  name: "",
  sum: "hta-number hta-sum",
};

function SumsRow(props: { row: Sums; maxTime: number; children: ComponentChildren }) {
  const { row, maxTime, children } = props;
  const time = (ns: number) => (
    <td class="hta-number" title={formatExact(ns)}>
      {formatDuration(ns)}
    </td>
  );
  return (
    <tr>
      <th scope="row">
        <Swatch kind={row.kind} />
        {children}
      </th>
      <td class="hta-number hta-sum" title={formatExact(row.sum)}>
        <div class="hta-sumrow">
          <span class="hta-sumplace" aria-hidden="true">
            <span
              class="hta-sumbar"
              data-kind={row.kind}
              style={{ width: `${(row.sum / maxTime) * 100}%` }}
            />
          </span>
          {formatDuration(row.sum)}
        </div>
      </td>
      <td class="hta-number">{formatCount(row.count)}</td>
      {time(row.mean)}
      {time(row.min)}
      {time(row.max)}
    </tr>
  );
}

function maxTimeOf(rows: readonly Sums[]): number {
  return Math.max(...rows.map((row) => row.sum), 1);
}

function csvOfNames(rows: readonly NameSums[]): string {
  const columns = {
    name: rows.map((row) => row.name),
    kind: rows.map((row) => row.kind),
    count: rows.map((row) => row.count),
    sum_ns: rows.map((row) => row.sum),
    mean_ns: rows.map((row) => row.mean),
    min_ns: rows.map((row) => row.min),
    max_ns: rows.map((row) => row.max),
  };
  return toCsv({ rows: rows.length, columns, attrs: {} });
}
