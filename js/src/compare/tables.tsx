/** The tables of a comparison: names, changes, and tables added by a format. */

import { useSignal } from "@preact/signals";
import { classStyle, classOfChange, classCss } from "../facts/event_classes";
import type { PanelFrame, ThemeName, CellValue } from "../protocol/source";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatDurationDelta,
  formatPValue,
  formatShare,
  plural,
} from "../ui/formats";
import { Link } from "../ui/controls";
import { capitalize, frameNote } from "../ui/text";
import { type TableColumn, FilterField, NameButton, Table } from "../ui/table";
import {
  barColor,
  type BySide,
  countsText,
  deltaText,
  neutralColor,
  numberAt,
  type FrameRow,
  rowsOf,
  shareText,
  shortName,
  textAt,
} from "./frames";

interface ChooserProps<Choice> {
  frame: PanelFrame;
  theme: ThemeName;
  /** Number of rows that fit. */
  maxRows: number;
  chosen: Choice | null;
}

/** Return a row's sort key: its name or an absolute difference. */
function sizeOf(row: FrameRow, column: string): CellValue {
  if (column === "name") return textAt(row, column);
  if (column === "count")
    return Math.abs(numberAt(row, "after_count") - numberAt(row, "before_count"));
  return Math.abs(numberAt(row, column));
}

function membersOf(row: FrameRow): string[] {
  return Array.isArray(row.members) ? (row.members as string[]) : [textAt(row, "name")];
}

/** Return a bar's style. Added, removed and replaced events have patterns; chance is neutral. */
function barStyle(row: FrameRow, theme: ThemeName): Record<string, string> {
  if (row.is_change !== true) return { background: neutralColor(theme) };
  const changeClass = changeClassOfName(row);
  if (changeClass !== null) return classCss(classStyle(changeClass, theme));
  return { background: barColor(numberAt(row, "diff_ns"), theme) };
}

/** Return the class of a name that is missing on one side; null for other names. */
function changeClassOfName(row: FrameRow): "only_here" | "replaced" | null {
  const changeClass = classOfChange(textAt(row, "change"), 0, 1);
  return row.is_change === true && (changeClass === "only_here" || changeClass === "replaced")
    ? changeClass
    : null;
}

const HATCH_TEXTS = [
  ["only_here", "new or gone"],
  ["replaced", "replaced by another name"],
] as const;

/** Explain the hatching patterns that occur in the rows. */
function HatchLegend({ rows, theme }: { rows: readonly FrameRow[]; theme: ThemeName }) {
  const changeClasses = new Set(rows.map(changeClassOfName));
  return HATCH_TEXTS.filter(([changeClass]) => changeClasses.has(changeClass)).map(
    ([changeClass, words]) => (
      <span key={changeClass} class="hta-diff-hatch">
        <i class="hta-diff-swatch" style={classCss(classStyle(changeClass, theme))} />
        {words}
      </span>
    ),
  );
}

/** A difference, with a bar to the left or right of zero on the same scale in all rows. */
function DiffCell(props: { row: FrameRow; scale: BySide<number>; theme: ThemeName }) {
  const { row, scale, theme } = props;
  const [low, high] = scale;
  const diff = numberAt(row, "diff_ns");
  const part = (ns: number): string => `${(ns / Math.max(high - low, 1)) * 100}%`;
  return (
    <span class="hta-diff-by">
      <b>{deltaText(diff)}</b>
      <span class="hta-diff-around" style={{ "--zero": part(-low) }}>
        <i
          style={{
            left: part(Math.min(diff, 0) - low),
            width: part(Math.abs(diff)),
            ...barStyle(row, theme),
          }}
        />
      </span>
    </span>
  );
}

const counts = (row: FrameRow): string =>
  countsText(numberAt(row, "before_count"), numberAt(row, "after_count"));

/** Minimum width at which times and counts appear next to names and changes, in px. */
const NUMBERS_FROM = 420;

function NameWithKind({ row, on }: { row: FrameRow; on: boolean }) {
  const replacement = textAt(row, "replaced_by");
  const members = membersOf(row).slice(0, 4).join("\n");
  const title = replacement ? `${members}\nreplaced by ${replacement}` : members;
  const background = `var(--hta-kind-${textAt(row, "kind") || "other"})`;
  return (
    <>
      <i class="hta-diff-swatch" style={{ background }} />
      <NameButton text={textAt(row, "name")} title={title} on={on} />
    </>
  );
}

function nameColumns(
  scale: readonly [low: number, high: number],
  theme: ThemeName,
): TableColumn<FrameRow>[] {
  const durationColumn = (by: "before_ns" | "after_ns", title: string): TableColumn<FrameRow> => ({
    by,
    title,
    from: NUMBERS_FROM,
    isNumber: true,
    cell: (row) => durationText(numberAt(row, by)),
  });
  return [
    {
      by: "name",
      title: "name",
      width: "minmax(0, 1fr)",
      cell: (row, _, on) => <NameWithKind row={row} on={on} />,
    },
    durationColumn("before_ns", "before"),
    durationColumn("after_ns", "after"),
    {
      by: "diff_ns",
      title: "change",
      width: "minmax(128px, 0.8fr)",
      cell: (row) => <DiffCell row={row} scale={scale} theme={theme} />,
    },
    { by: "count", title: "count", from: NUMBERS_FROM, isNumber: true, cell: counts },
  ];
}

/** `choose` receives a row's full names; null if the row is deselected. */
export function NamesTable({
  frame,
  theme,
  device,
  maxRows,
  chosen: selected,
  choose,
}: ChooserProps<string> & {
  /** The jobs' word for their devices. */
  device: string;
  choose(name: string | null, members: string[] | null): void;
}) {
  const filter = useSignal("");
  const diffOf = (row: FrameRow): number => numberAt(row, "diff_ns");
  const rows = rowsOf(frame).sort((a, b) => Math.abs(diffOf(b)) - Math.abs(diffOf(a)));
  const diffs = rows.map(diffOf);
  const scale = [Math.min(0, ...diffs), Math.max(0, ...diffs)] as const;
  const press = (row: FrameRow): void => {
    if (selected === textAt(row, "name")) choose(null, null);
    else choose(textAt(row, "name"), membersOf(row));
  };
  return (
    <>
      <div class="hta-diff-head">
        <h3>Names that changed most</h3>
        <FilterField name="Filter names" set={(typed) => (filter.value = typed)} />
      </div>
      <p class="hta-about">
        {namesAbout(frame, device)}
        <HatchLegend rows={rows} theme={theme} />
      </p>
      <Table
        name="Names that changed most"
        columns={nameColumns(scale, theme)}
        rows={rows}
        value={sizeOf}
        order={LARGEST_FIRST}
        filter={filter.value}
        namesOf={(row) => [textAt(row, "name"), ...membersOf(row)]}
        isOn={(row) => textAt(row, "name") === selected}
        press={press}
        maxRows={maxRows}
        rowStep={50}
        emptyText={frameNote(frame) || "No such name."}
      />
    </>
  );
}

/** Return a text that explains the times and counts the omitted names. */
function namesAbout({ attrs, rows }: PanelFrame, device: string): string {
  const steps = Number(attrs.steps ?? 1);
  const timesText = { cpu: "host time", all: "time" }[String(attrs.device)] ?? `${device} time`;
  const stepsText = `${steps > 1 ? "a step, mean " : ""}over ${plural(steps, "step")}`;
  const hasRanks = Number(attrs.before_ranks ?? 1) > 1 || Number(attrs.after_ranks ?? 1) > 1;
  const hiddenNames = Number(attrs.names ?? rows) - rows;
  const moreNames = plural(hiddenNames, "more name");
  return (
    `sum of ${timesText} ${stepsText}${hasRanks ? ", mean over ranks" : ""}; ` +
    "parallel streams add up, so this column does not sum to the difference" +
    (hiddenNames > 0 ? `; Python lists ${moreNames}, which changed less` : "") +
    ". Grey: not beyond the noise."
  );
}

const LARGEST_FIRST = { by: "diff_ns", descending: true };

// The table of changes beyond noise. A click on a row marks its events on both sides.

/** Describe how likely a change is due to chance, or state that the spread is unknown. */
export function chanceText(
  change: string,
  p: unknown,
  hasSteps = true,
): { words: string; about: string } {
  if (change !== "slower" && change !== "faster") {
    const about = "Added and removed calls are not tested.";
    return { words: hasSteps ? "in most steps" : "–", about };
  }
  if (typeof p !== "number") {
    const about = "With one step on a side the spread is unknown: the threshold is 20 %.";
    return { words: "one step", about };
  }
  const about =
    "Probability that chance alone makes the mean step times differ this much (t-test over the steps).";
  return { words: formatPValue(p), about };
}

/** Return a text for replaced work, such as `aten::add ; aten::mul → fused_add_mul`. */
export function replacedText(row: FrameRow, form: "names" | "short" = "names"): string {
  const [before, after] = ["before", "after"].map((side) => {
    const names = (textAt(row, `${side}_${form}`) || textAt(row, `${side}_names`)).split("; ");
    const more = names.length > 2 ? ` and ${names.length - 2} more` : "";
    return names.slice(0, 2).join(", ") + more;
  });
  if (before === after) return before === "" ? "" : `other variants of ${before}`;
  return `${before} → ${after}`;
}

/** Return the call counts: all calls of the name if only some were added or removed. */
export function callsText(row: FrameRow): string {
  const totals = [numberAt(row, "before_total"), numberAt(row, "after_total")] as const;
  return Math.min(...totals) > 0 && ["added", "removed"].includes(textAt(row, "change"))
    ? countsText(...totals)
    : counts(row);
}

/** Minimum width at which the two times and the probability are shown, in px. */
const ALL_FROM = 720;

const durationText = (ns: number): string => (ns > 0 ? formatDuration(Math.round(ns)) : "–");

function ChangeClass({ row, theme }: { row: FrameRow; theme: ThemeName }) {
  const [before, after] = [numberAt(row, "before_ns"), numberAt(row, "after_ns")];
  const changeClass = classOfChange(textAt(row, "change"), before, after);
  return (
    <>
      <i class="hta-diff-swatch" style={classCss(classStyle(changeClass, theme))} />
      {textAt(row, "change")}
    </>
  );
}

function ChangeName({ row, on }: { row: FrameRow; on: boolean }) {
  const [path, places] = [textAt(row, "path"), numberAt(row, "places")];
  const more = places > 1 ? ` and ${places - 1} more` : "";
  const lines = [textAt(row, "name"), path && `in ${path}${more}`, replacedText(row)];
  const title = lines.filter((line) => line !== "").join("\n");
  return (
    <>
      <NameButton text={shortName(row)} title={title} on={on} />
      <small title={replacedText(row)}>
        {replacedText(row, "short") || textAt(row, "measure")}
      </small>
    </>
  );
}

function changeColumns(theme: ThemeName, hasSteps: boolean): TableColumn<FrameRow>[] {
  return [
    { by: "change", title: "change", cell: (row) => <ChangeClass row={row} theme={theme} /> },
    {
      by: "name",
      title: "name",
      width: "minmax(80px, 1fr)",
      cell: (row, _, on) => <ChangeName row={row} on={on} />,
    },
    {
      by: "before_ns",
      title: "before → after",
      from: ALL_FROM,
      isNumber: true,
      cell: (row) =>
        `${durationText(numberAt(row, "before_ns"))} → ${durationText(numberAt(row, "after_ns"))}`,
    },
    {
      by: "diff_ns",
      title: hasSteps ? "a step" : "change",
      isNumber: true,
      cell: (row) => (
        <span>
          <b>{deltaText(numberAt(row, "diff_ns"))}</b>
          {` ${shareText(numberAt(row, "diff_ns"), numberAt(row, "before_ns"))}`}
        </span>
      ),
    },
    { by: "count", title: "calls", isNumber: true, cell: callsText },
    {
      by: "p_value",
      title: "chance",
      from: ALL_FROM,
      isNumber: true,
      cell: (row) => {
        const chance = chanceText(textAt(row, "change"), row.p_value, hasSteps);
        return <span title={chance.about}>{chance.words}</span>;
      },
    },
  ];
}

/** `choose` receives a row's number and name; null if the row is deselected. */
export function ChangesTable({
  frame,
  theme,
  maxRows,
  chosen: selected,
  ranksText,
  hasSteps,
  choose,
}: ChooserProps<number> & {
  /** Names the ranks if some compared ranks are not included. */
  ranksText: string;
  hasSteps: boolean;
  choose(row: number | null, name: string): void;
}) {
  const rows = rowsOf(frame);
  const tested = Number(frame.attrs.tested ?? 0);
  const title = `What changed${ranksText && `, ${ranksText}`}`;
  const columns = rows.length > 0 ? changeColumns(theme, hasSteps) : [];
  return (
    <>
      <h3>{title}</h3>
      <p class="hta-about">
        {`Changes beyond the noise, each listed once; times and counts per ${hasSteps ? "step and " : ""}rank. ` +
          (tested > 0 ? `${plural(tested, "duration")} tested. ` : "") +
          (rows.length > 0 ? "Click one to mark its events on both sides." : "")}
      </p>
      <Table
        name={title}
        columns={columns}
        rows={rows}
        value={null}
        namesOf={(row) => [textAt(row, "name")]}
        isOn={(row) => rows.indexOf(row) === selected}
        press={(row) => {
          const index = rows.indexOf(row);
          choose(index === selected ? null : index, shortName(row));
        }}
        rowNoun="change"
        maxRows={maxRows}
        rowStep={20}
        emptyText={frameNote(frame) || "Nothing changed beyond the noise."}
      />
    </>
  );
}

// Tables added by formats. For each measure, they show before, after and change side by side.

const FIRST_ROWS = 12;
const FORMAT_NAMES: Record<string, string> = { mpi: "MPI", byteps: "BytePS" };

/** A measure, with a column per side and in some tables a column for the difference. */
interface MeasureColumns {
  /** Column name without the prefix `before_`, `after_` or `diff_`. */
  name: string;
  sides: boolean;
  diff: boolean;
}

/** Group columns by measure, in column order. */
export function measuresOf(columns: readonly string[]): MeasureColumns[] {
  const columnNames = new Set(columns);
  const measures: MeasureColumns[] = [];
  for (const column of columns) {
    const [, side, measure = ""] = /^(before|after|diff)_(.+)$/.exec(column) ?? [];
    const isPaired = [`before_${measure}`, `after_${measure}`].every((name) =>
      columnNames.has(name),
    );
    if (side === undefined || !isPaired) measures.push({ name: column, sides: false, diff: false });
    else if (side === "before") {
      measures.push({ name: measure, sides: true, diff: columnNames.has(`diff_${measure}`) });
    }
  }
  return measures;
}

const UNITS = /(?:^|_)(ns|us|ms|s|bytes|share|pct|mib)$/;
const SHARE = /(?:^|_)share(?:_|$)/;

/** Return a column's title without the unit, which is shown in the cells. */
export function titleOf(column: string): string {
  // For MPI, the change in calls and bytes, regardless of their time.
  if (column === "change") return "calls and bytes";
  if (SHARE.test(column) || column === "bytes") return column.replaceAll("_", " ");
  return column.replace(UNITS, "").replaceAll("_", " ") || "time";
}

const PER_NS: Record<string, number> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };

/** Return a cell's text, with the unit taken from the column name. */
export function cellText(column: string, value: unknown, isDelta = false): string {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  if (column.endsWith("p_value")) return formatPValue(value).slice(2);
  // Calls without a message.
  if (column.startsWith("size_") && value < 0) return "–";
  if (column === "change_share") return shareText(value, 1);
  const unit = SHARE.test(column) ? "share" : (UNITS.exec(column)?.[1] ?? "");
  const perNs = PER_NS[unit];
  if (perNs !== undefined) {
    const ns = value * perNs;
    if (!isDelta) return formatDuration(ns);
    return Math.abs(ns) < 0.5 ? "±0" : formatDurationDelta(ns);
  }
  if (isDelta && value === 0) return "±0";
  const plusSign = isDelta ? "+" : "";
  return `${value < 0 ? "−" : plusSign}${sizeText(Math.abs(value), unit)}`;
}

function sizeText(size: number, unit: string): string {
  if (unit === "bytes") return formatBytes(size);
  if (unit === "share") return formatShare(size);
  if (unit === "pct") return formatShare(size / 100);
  if (unit === "mib") return formatBytes(size * 2 ** 20);
  return Number.isInteger(size) ? formatCount(size) : String(Number(size.toPrecision(3)));
}

/** Return the CSS class for a change in time, where more is slower. Other measures have none. */
function deltaClass(column: string, value: unknown): string {
  const isTime = PER_NS[UNITS.exec(column)?.[1] ?? ""] !== undefined;
  if (!isTime || typeof value !== "number" || cellText(column, value, true) === "±0") return "";
  return value > 0 ? "hta-diff-slower" : "hta-diff-faster";
}

function MeasureCells(props: { measure: MeasureColumns; row: FrameRow }) {
  const { row } = props;
  const { name, sides, diff } = props.measure;
  if (!sides) {
    const value = row[name];
    return <td class={typeof value === "string" ? "hta-text" : ""}>{cellText(name, value)}</td>;
  }
  const delta = row[`diff_${name}`];
  return (
    <>
      <td>{cellText(name, row[`before_${name}`])}</td>
      <td>{cellText(name, row[`after_${name}`])}</td>
      {diff && <td class={deltaClass(name, delta)}>{cellText(name, delta, true)}</td>}
    </>
  );
}

/** Return a title: `MPI message sizes` for `mpi_message_sizes`. */
export function tableTitle(name: string): string {
  const [first = "", ...words] = name.split("_");
  const firstWord = FORMAT_NAMES[first] ?? capitalize(first);
  return [firstWord, ...words].join(" ");
}

/** Show a single row of many measures as one row per measure. */
function TransposedTable(props: { measures: readonly MeasureColumns[]; row: FrameRow }) {
  const { measures, row } = props;
  return (
    <table>
      <thead>
        <tr>
          {["measure", "before", "after", "change"].map((word) => (
            <th scope="col">{word}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {measures.map((measure) => (
          <tr>
            <td>{titleOf(measure.name)}</td>
            <MeasureCells measure={measure} row={row} />
            {!measure.sides && <td />}
            {!(measure.sides && measure.diff) && <td />}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function PlainTable({ name, frame }: { name: string; frame: PanelFrame }) {
  const all = useSignal(false);
  const measures = measuresOf(Object.keys(frame.columns));
  const rows = rowsOf(frame);
  const drawn = all.value ? rows : rows.slice(0, FIRST_ROWS);
  const left = rows.length - drawn.length;
  const hiddenRows = Number(frame.attrs.rows ?? rows.length) - rows.length;
  const note = frameNote(frame);
  const isPaired = measures.some(({ sides }) => sides);
  return (
    <>
      <h3>{tableTitle(name)}</h3>
      {note !== "" && <p class="hta-about">{note}</p>}
      {rows.length === 0 && note === "" && <p class="hta-note">Nothing.</p>}
      {rows.length > 0 && (
        <div class="hta-diff-scrolls">
          {rows.length === 1 && isPaired ? (
            <TransposedTable measures={measures} row={rows[0]!} />
          ) : (
            <table>
              <MeasureHeads measures={measures} isPaired={isPaired} />
              <tbody>
                {drawn.map((row) => (
                  <tr>
                    {measures.map((measure) => (
                      <MeasureCells measure={measure} row={row} />
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </div>
      )}
      <p class="hta-note">
        {left > 0 && <Link text={plural(left, "more row")} press={() => (all.value = true)} />}
        {left <= 0 && hiddenRows > 0 && `Python lists ${plural(hiddenRows, "more row")}.`}
      </p>
    </>
  );
}

function MeasureHeads(props: { measures: readonly MeasureColumns[]; isPaired: boolean }) {
  const { measures, isPaired } = props;
  const subheads = measures
    .filter(({ sides }) => sides)
    .flatMap(({ diff }) => ["before", "after", ...(diff ? ["change"] : [])]);
  return (
    <thead>
      <tr>
        {measures.map(({ name, sides, diff }) =>
          sides ? (
            <th scope="colgroup" colSpan={diff ? 3 : 2}>
              {titleOf(name)}
            </th>
          ) : (
            <th scope="col" rowSpan={isPaired ? 2 : 1}>
              {titleOf(name)}
            </th>
          ),
        )}
      </tr>
      {isPaired && (
        <tr>
          {subheads.map((word) => (
            <th scope="col">{word}</th>
          ))}
        </tr>
      )}
    </thead>
  );
}
