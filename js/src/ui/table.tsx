/** A sortable, filterable table with bars in its cells; a click on a row chooses it. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import type { PanelFrame, Value } from "../protocol/source";
import { Button, CutName } from "./controls";
import { formatCount, formatDuration, plural } from "./formats";
import { sentence } from "./text";

export interface Column<Row> {
  /** Sort key, and key of the column. */
  by: string;
  title: string;
  /** Explanation; "" if the title suffices. */
  hint?: string;
  /** CSS grid track. Default: as wide as its content. */
  width?: string;
  /** Not shown below this width of the table. */
  from?: number;
  isNumber?: boolean;
  /** `most`: the largest value of the column. `on`: the row is chosen. */
  cell(row: Row, most: number, on: boolean): ComponentChildren;
}

export interface Order {
  by: string;
  descending: boolean;
}

interface TableLook<Row> {
  name: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  /** The sort key; null if rows keep their own order. */
  value: ((row: Row, by: string) => Value) | null;
  /** The order of the given rows; null if it is not the order of a column. */
  order?: Order | null;
  /** Text that one of a row's names must contain. */
  filter?: string;
  /** The names of a row: the first is its own, in full. */
  namesOf(row: Row): readonly string[];
  isOn(row: Row): boolean;
  /** Whether rows that are not chosen are faint while others are chosen. */
  isFaint?: boolean;
  press(row: Row, add: boolean): void;
  /** Number of rows at first, and of further rows on request. */
  room?: number;
  step?: number;
  /** The noun for rows. */
  noun?: string;
  /** Text if there are no rows. */
  lack?: string;
  /** Content below the last row, given the number of shown rows. */
  foot?(drawn: number): string;
}

export const FIRST_ROWS = 12;
export const ROW_PX = 25;
const MORE_ROWS = 40;

export function Table<Row>(look: TableLook<Row>) {
  const { name, rows, value, namesOf, isOn, room = FIRST_ROWS, step = MORE_ROWS } = look;
  const { noun = "name", lack = "No name matches this filter.", order: first = null } = look;
  const order = useSignal<Order | null>(first);
  const more = useSignal(0);
  const [place, width] = useWidth();
  const columns = look.columns.filter(({ from = 0 }) => width >= from);
  const wanted = look.filter?.trim().toLowerCase() ?? "";
  const found = rows.filter((row) =>
    namesOf(row).some((one) => one.toLowerCase().includes(wanted)),
  );
  const { value: by } = order;
  if (value !== null && by !== null && by !== first) {
    const sign = by.descending ? -1 : 1;
    found.sort((a, b) => sign * compare(value(a, by.by), value(b, by.by)));
  }
  const drawn = found.slice(0, room + more.value);
  const most = columns.map((column) =>
    Math.max(...rows.map((row) => Number(value?.(row, column.by)) || 0), 1),
  );
  const foot = look.foot?.(drawn.length) ?? "";
  const left = found.length - drawn.length;
  const seen = new Map<string, number>();
  /** Names may occur in several rows. */
  const keyOf = (row: Row): string => {
    const own = namesOf(row)[0] ?? "";
    seen.set(own, (seen.get(own) ?? 0) + 1);
    return `${own} ${seen.get(own)}`;
  };
  const sort = ({ by: column, isNumber = false }: Column<Row>): void => {
    const down = isNumber || column !== "name";
    const { value: now } = order;
    if (now?.by !== column) order.value = { by: column, descending: down };
    else if (now.descending === down) order.value = { by: column, descending: !down };
    else order.value = first?.by === column ? { by: column, descending: down } : first;
  };
  return (
    <>
      <div
        ref={place}
        class="hta-names"
        role="table"
        aria-label={name}
        style={{ gridTemplateColumns: columns.map((column) => column.width ?? "auto").join(" ") }}
      >
        <div class="hta-names-head" role={columns.length > 0 ? "row" : undefined}>
          {columns.map((column) => {
            const now = by?.by === column.by ? by : null;
            return (
              <div
                key={column.by}
                role="columnheader"
                class={column.isNumber ? "hta-number" : undefined}
                aria-sort={now === null ? undefined : now.descending ? "descending" : "ascending"}
              >
                {value === null ? (
                  <span title={column.hint}>{column.title}</span>
                ) : (
                  <button
                    type="button"
                    class="hta-sort"
                    title={`${column.hint ?? column.title}. Click to sort.`}
                    onClick={() => sort(column)}
                  >
                    {column.title}
                    {now !== null && (now.descending ? " ↓" : " ↑")}
                  </button>
                )}
              </div>
            );
          })}
        </div>
        {drawn.map((row) => {
          const on = isOn(row);
          return (
            <div
              key={keyOf(row)}
              class={`hta-name-row${on ? " hta-on" : look.isFaint === true ? " hta-faint" : ""}`}
              role="row"
              data-name={namesOf(row)[0]}
              onClick={({ ctrlKey, metaKey, shiftKey }) =>
                look.press(row, ctrlKey || metaKey || shiftKey)
              }
            >
              {columns.map((column, at) => (
                <div key={column.by} role="cell" class={column.isNumber ? "hta-number" : undefined}>
                  {column.cell(row, most[at] ?? 1, on)}
                </div>
              ))}
            </div>
          );
        })}
      </div>
      <div class="hta-names-foot">
        {left > 0 && (
          <Button
            text={plural(left, `more ${noun}`)}
            class="hta-more-names"
            press={() => (more.value += step)}
          />
        )}
        {more.value > 0 && drawn.length > room && (
          <Button text="Fewer" press={() => (more.value = 0)} />
        )}
        {found.length === 0 && <span class="hta-note">{sentence(lack)}</span>}
        {foot !== "" && <span class="hta-note">{foot}</span>}
      </div>
    </>
  );
}

export function Filter(look: { name: string; text?: string; set(text: string): void }) {
  return (
    <input
      type="search"
      class="hta-input hta-table-filter"
      placeholder="Filter"
      aria-label={look.name}
      spellcheck={false}
      value={look.text}
      onInput={({ currentTarget }) => look.set(currentTarget.value)}
    />
  );
}

/** The name of a row, as a button; its row receives the click. */
export function NameButton(look: { text: string; title: string; on: boolean }) {
  return (
    <button type="button" class="hta-name-button" title={look.title} aria-pressed={look.on}>
      <CutName text={look.text} />
    </button>
  );
}

/** The width of an element, once it is in the page. */
function useWidth() {
  const width = useSignal(0);
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const el = place.current!;
    const look = (): void => {
      if (el.clientWidth > 0) width.value = el.clientWidth;
    };
    look();
    const resizes = new ResizeObserver(look);
    resizes.observe(el);
    return () => resizes.disconnect();
  }, []);
  return [place, width.value] as const;
}

function compare(a: Value, b: Value): number {
  if (a === b) return 0;
  // Unknown values come last in descending order.
  if (a === null) return -1;
  if (b === null) return 1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b));
}

// Columns of numbers: their values, and the bars behind some.

export function numberOf(value: Value): number | null {
  return typeof value === "number" ? value : null;
}

export const counted = (value: Value): string => formatCount(numberOf(value));
export const lasted = (value: Value): string => formatDuration(numberOf(value));

/** A bar of a value, and its text; `wait` of it is hatched. */
export function BarCell(look: {
  value: number | null;
  most: number;
  kind: string;
  text: string;
  wait?: number;
}) {
  const { value, most, kind, text, wait = 0 } = look;
  if (value === null) return <span class="hta-note">–</span>;
  const part = (size: number): string => `${((100 * size) / most).toFixed(2)}%`;
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

/** A frame as CSV, in its own names and units. */
export function csvOf(frame: PanelFrame): string {
  const names = Object.keys(frame.columns);
  const lines = [names.map(quoted).join(",")];
  for (let row = 0; row < frame.rows; row += 1) {
    lines.push(names.map((name) => quoted(frame.columns[name]?.[row] ?? "")).join(","));
  }
  return `${lines.join("\r\n")}\r\n`;
}

function quoted(value: Value): string {
  // Spreadsheet programs read such a cell as a formula; an apostrophe marks it as text.
  const isFormula = typeof value === "string" && /^[=+\-@\t\r]/.test(value);
  const text = isFormula ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
