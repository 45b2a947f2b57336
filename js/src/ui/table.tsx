/** A sortable, filterable table with bars in its cells. A click selects a row. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import type { PanelFrame, CellValue } from "../protocol/source";
import { Button, CutName } from "./controls";
import { formatCount, formatDuration, plural } from "./formats";
import { watchBoxes } from "./host";
import { capitalizeSentence } from "./text";

export interface TableColumn<Row> {
  /** Key of the column when sorting rows. */
  by: string;
  title: string;
  /** Explanation; "" if the title is self-explanatory. */
  hint?: string;
  /** CSS grid track. Default: the width of the content. */
  width?: string;
  /** Minimum table width at which the column is shown. */
  from?: number;
  isNumber?: boolean;
  /** Draw a cell. `max` is the column's largest value; `on` is whether the row is selected. */
  cell(row: Row, max: number, on: boolean): ComponentChildren;
}

interface SortOrder {
  by: string;
  descending: boolean;
}

interface TableProps<Row> {
  name: string;
  columns: readonly TableColumn<Row>[];
  rows: readonly Row[];
  /** Return the value to sort by. Null if rows cannot be sorted. */
  value: ((row: Row, by: string) => CellValue) | null;
  /** Order of `rows`; null if they are not sorted by a column. */
  order?: SortOrder | null;
  /** Text that at least one of a row's names must contain. */
  filter?: string;
  /** Return a row's names for the filter. The first is the full name. */
  namesOf(row: Row): readonly string[];
  isOn(row: Row): boolean;
  /** Whether unselected rows are faint while other rows are selected. */
  isFaint?: boolean;
  press(row: Row, add: boolean): void;
  /** Number of rows shown at first, and number added on each request. */
  maxRows?: number;
  rowStep?: number;
  /** The noun for rows. */
  rowNoun?: string;
  /** Text to show if there are no rows. */
  emptyText?: string;
  /** Return the footer below the last row, given the number of rows shown. */
  foot?(drawn: number): string;
}

export const FIRST_ROWS = 12;
export const ROW_PX = 25;
const MORE_ROWS = 40;

export function Table<Row>(props: TableProps<Row>) {
  const { name, rows, value, namesOf, maxRows = FIRST_ROWS, rowStep = MORE_ROWS } = props;
  const {
    rowNoun = "name",
    emptyText = "No name matches this filter.",
    order: givenOrder = null,
  } = props;
  const order = useSignal<SortOrder | null>(givenOrder);
  const moreRows = useSignal(0);
  const [wrapperRef, width] = useWidth();
  const columns = props.columns.filter(({ from = 0 }) => width >= from);
  const current = order.value;
  const shownRows = arrangeRows(props, current === givenOrder ? null : current);
  const drawn = shownRows.slice(0, maxRows + moreRows.value);
  const keys = uniqueKeys(drawn.map((row) => namesOf(row)[0] ?? ""));
  const cells = columns.map((column) => {
    const values = rows.map((row) => Number(value?.(row, column.by)) || 0);
    return [column, Math.max(...values)] as const;
  });
  const sortBy = (column: TableColumn<Row>): void =>
    void (order.value = nextOrder(current, column, givenOrder));
  const foot = props.foot?.(drawn.length) ?? "";
  const hiddenRows = shownRows.length - drawn.length;
  return (
    <>
      <div
        ref={wrapperRef}
        class="hta-names"
        role="table"
        aria-label={name}
        style={{ gridTemplateColumns: columns.map((column) => column.width ?? "auto").join(" ") }}
      >
        {columns.length > 0 && (
          <div class="hta-names-head" role="row">
            {columns.map((column) => (
              <ColumnHead
                key={column.by}
                column={column}
                order={current?.by === column.by ? current : null}
                sort={value === null ? null : () => sortBy(column)}
              />
            ))}
          </div>
        )}
        {drawn.map((row, index) => (
          <TableRow key={keys[index]!} table={props} row={row} cells={cells} />
        ))}
      </div>
      <div class="hta-names-foot">
        {hiddenRows > 0 && (
          <Button
            text={plural(hiddenRows, `more ${rowNoun}`)}
            class="hta-more-names"
            press={() => (moreRows.value += rowStep)}
          />
        )}
        {moreRows.value > 0 && drawn.length > maxRows && (
          <Button text="Fewer" press={() => (moreRows.value = 0)} />
        )}
        {shownRows.length === 0 && <span class="hta-note">{capitalizeSentence(emptyText)}</span>}
        {foot !== "" && <span class="hta-note">{foot}</span>}
      </div>
    </>
  );
}

/** Return the rows that match the filter, sorted by `order`; null leaves them as they are. */
function arrangeRows<Row>(
  { rows, value, namesOf, filter = "" }: TableProps<Row>,
  order: SortOrder | null,
): Row[] {
  const filterText = filter.trim().toLowerCase();
  const shownRows = rows.filter((row) =>
    namesOf(row).some((name) => name.toLowerCase().includes(filterText)),
  );
  if (value === null || order === null) return shownRows;
  const sign = order.descending ? -1 : 1;
  return shownRows.sort((a, b) => sign * compareValues(value(a, order.by), value(b, order.by)));
}

/** Number repeated names, because keys must be unique but names may occur several times. */
function uniqueKeys(names: readonly string[]): string[] {
  const counts = new Map<string, number>();
  return names.map((name) => {
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return `${name} ${count}`;
  });
}

/** Return the order after a press on a column header: the column's, then reversed, then `first`. */
function nextOrder<Row>(
  now: SortOrder | null,
  { by, isNumber = false }: TableColumn<Row>,
  first: SortOrder | null,
): SortOrder | null {
  const down = isNumber || by !== "name";
  if (now?.by !== by) return { by, descending: down };
  if (now.descending === down) return { by, descending: !down };
  return first?.by === by ? { by, descending: down } : first;
}

/** A column header. `order` is null if rows have another order; `sort`, if the order is fixed. */
function ColumnHead<Row>(props: {
  column: TableColumn<Row>;
  order: SortOrder | null;
  sort: (() => void) | null;
}) {
  const { column, order, sort } = props;
  const direction = order?.descending === true ? "descending" : "ascending";
  return (
    <div
      role="columnheader"
      class={column.isNumber ? "hta-number" : undefined}
      aria-sort={order === null ? undefined : direction}
    >
      {sort === null ? (
        <span title={column.hint}>{column.title}</span>
      ) : (
        <button
          type="button"
          class="hta-sort"
          title={`${column.hint ?? column.title}. Click to sort.`}
          onClick={sort}
        >
          {column.title}
          {order !== null && (order.descending ? " ↓" : " ↑")}
        </button>
      )}
    </div>
  );
}

/** A row. `cells` holds its columns, each with the column's largest value. */
function TableRow<Row>(props: {
  table: TableProps<Row>;
  row: Row;
  cells: readonly (readonly [TableColumn<Row>, number])[];
}) {
  const { table, row, cells } = props;
  const on = table.isOn(row);
  const faintClass = table.isFaint === true ? " hta-faint" : "";
  return (
    <div
      class={`hta-name-row${on ? " hta-on" : faintClass}`}
      role="row"
      data-name={table.namesOf(row)[0]}
      onClick={({ ctrlKey, metaKey, shiftKey }) => table.press(row, ctrlKey || metaKey || shiftKey)}
    >
      {cells.map(([column, maximum]) => (
        <div key={column.by} role="cell" class={column.isNumber ? "hta-number" : undefined}>
          {column.cell(row, maximum, on)}
        </div>
      ))}
    </div>
  );
}

export function FilterField(props: { name: string; text?: string; set(text: string): void }) {
  return (
    <input
      type="search"
      class="hta-input hta-table-filter"
      placeholder="Filter"
      aria-label={props.name}
      spellcheck={false}
      value={props.text}
      onInput={({ currentTarget }) => props.set(currentTarget.value)}
    />
  );
}

/** A row's name as a button. The row handles the click. */
export function NameButton(props: { text: string; title: string; on: boolean }) {
  return (
    <button type="button" class="hta-name-button" title={props.title} aria-pressed={props.on}>
      <CutName text={props.text} />
    </button>
  );
}

function useWidth() {
  const width = useSignal(0);
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const el = place.current!;
    const update = (): void => {
      if (el.clientWidth > 0) width.value = el.clientWidth;
    };
    update();
    const aborter = new AbortController();
    watchBoxes([el], update, aborter.signal);
    return () => aborter.abort();
  }, []);
  return [place, width.value] as const;
}

function compareValues(a: CellValue, b: CellValue): number {
  if (a === b) return 0;
  // In descending order, unknown values come last.
  if (a === null) return -1;
  if (b === null) return 1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b));
}

// Number cells, and the bars behind some of them.

export function numberOrNull(value: CellValue): number | null {
  return typeof value === "number" ? value : null;
}

export const countText = (value: CellValue): string => formatCount(numberOrNull(value));
export const durationText = (value: CellValue): string => formatDuration(numberOrNull(value));

/** A bar for a value, with its text. The `wait` part of the value is hatched. */
export function BarCell(props: {
  value: number | null;
  max: number;
  kind: string;
  text: string;
  wait?: number;
}) {
  const { value, max, kind, text, wait = 0 } = props;
  if (value === null) return <span class="hta-note">–</span>;
  const part = (size: number): string => `${((100 * size) / max).toFixed(2)}%`;
  return (
    <>
      <span class="hta-cell-bar" aria-hidden="true">
        {value - wait > 0 && <i data-kind={kind} style={{ width: part(value - wait) }} />}
        {wait > 0 && <i class="hta-cell-wait" style={{ width: part(wait) }} />}
      </span>
      <span>{text}</span>
    </>
  );
}

/** Return a frame as CSV, with the names and units of its columns. */
export function toCsv(frame: PanelFrame): string {
  const names = Object.keys(frame.columns);
  const lines = [names.map(quoteCsv).join(",")];
  for (let row = 0; row < frame.rows; row += 1) {
    lines.push(names.map((name) => quoteCsv(frame.columns[name]?.[row] ?? "")).join(","));
  }
  return `${lines.join("\r\n")}\r\n`;
}

/** Cells that spreadsheets treat as formulas, even after spaces or with full-width characters. */
const FORMULA = /^(?:\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])/;

function quoteCsv(value: CellValue): string {
  // A leading apostrophe marks text.
  const isFormula = typeof value === "string" && FORMULA.test(value);
  const text = isFormula ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
