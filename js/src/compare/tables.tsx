/** Tables of a comparison: names, changes, and tables of a format. */

import { useSignal } from "@preact/signals";
import { classLook, classOfChange, lookStyle } from "../facts/event_classes";
import type { Frame, ThemeName, Value } from "../protocol/source";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatDurationDelta,
  formatShare,
  plural,
} from "../ui/formats";
import { Link } from "../ui/controls";
import { noteOf } from "../ui/text";
import { type Column, Filter, NameButton, Table } from "../ui/table";
import {
  barColour,
  type Both,
  countWords,
  deltaWords,
  number,
  type Row,
  rowsOf,
  shareWords,
  text,
} from "./frames";

interface Chooser<Choice> {
  frame: Frame;
  theme: ThemeName;
  /** Number of rows that fit. */
  room: number;
  chosen: Choice | null;
}

/** The sort key of a row: its name, or an absolute difference. */
function sizeOf(row: Row, by: string): Value {
  if (by === "name") return text(row, by);
  if (by === "count") return Math.abs(number(row, "after_count") - number(row, "before_count"));
  return Math.abs(number(row, by));
}

function membersOf(row: Row): string[] {
  return Array.isArray(row.members) ? (row.members as string[]) : [text(row, "name")];
}

/** Style of a bar: the length is the amount; the form marks added, removed and replaced events. */
function barStyle(change: string, diff: number, theme: ThemeName): Record<string, string> {
  const look = classOfChange(change, 0, diff);
  if (look === "only_here" || look === "replaced") return lookStyle(classLook(look, theme));
  return { background: barColour(diff, theme) };
}

/** A difference, and its bar left or right of zero, on the scale of all rows. */
function DiffCell({ row, scale, theme }: { row: Row; scale: Both<number>; theme: ThemeName }) {
  const [low, high] = scale;
  const diff = number(row, "diff_ns");
  const part = (ns: number): string => `${(ns / Math.max(high - low, 1)) * 100}%`;
  return (
    <span class="hta-diff-by">
      <b>{deltaWords(diff)}</b>
      <span class="hta-diff-around" style={{ "--zero": part(-low) }}>
        <i
          style={{
            left: part(Math.min(diff, 0) - low),
            width: part(Math.abs(diff)),
            ...barStyle(text(row, "change"), diff, theme),
          }}
        />
      </span>
    </span>
  );
}

const counts = (row: Row): string =>
  countWords(number(row, "before_count"), number(row, "after_count"));

/** `choose` receives the full names of a row; null if the row is unchosen. */
export function Names({
  frame,
  theme,
  room,
  chosen,
  choose,
}: Chooser<string> & { choose(name: string | null, members: string[] | null): void }) {
  const filter = useSignal("");
  const { attrs } = frame;
  const steps = Number(attrs.steps ?? 1);
  const what = attrs.device === "cpu" ? "host " : attrs.device === "all" ? "" : "GPU ";
  const beyond = Number(attrs.names ?? frame.rows) - frame.rows;
  const ranks = Number(attrs.before_ranks ?? 1) > 1 || Number(attrs.after_ranks ?? 1) > 1;
  const rows = rowsOf(frame).sort(
    (a, b) => Number(sizeOf(b, "diff_ns")) - Number(sizeOf(a, "diff_ns")),
  );
  const diffs = rows.map((row) => number(row, "diff_ns"));
  const scale = [Math.min(0, ...diffs), Math.max(0, ...diffs)] as const;
  const duration = (by: "before_ns" | "after_ns", title: string): Column<Row> => ({
    by,
    title,
    isNumber: true,
    cell: (row) => (number(row, by) ? formatDuration(number(row, by)) : "–"),
  });
  const columns: Column<Row>[] = [
    {
      by: "name",
      title: "name",
      width: "minmax(0, 1fr)",
      cell: (row, _, on) => {
        const by = text(row, "replaced_by");
        const title = membersOf(row).slice(0, 4).join("\n");
        return (
          <>
            <i
              class="hta-diff-swatch"
              style={{ background: `var(--hta-kind-${text(row, "kind") || "other"})` }}
            />
            <NameButton
              text={text(row, "name")}
              title={by ? `${title}\nreplaced by ${by}` : title}
              on={on}
            />
          </>
        );
      },
    },
    duration("before_ns", "before"),
    duration("after_ns", "after"),
    {
      by: "diff_ns",
      title: "change",
      width: "minmax(128px, 0.8fr)",
      cell: (row) => <DiffCell row={row} scale={scale} theme={theme} />,
    },
    { by: "count", title: "count", isNumber: true, cell: counts },
  ];
  const press = (row: Row): void => {
    if (chosen === text(row, "name")) choose(null, null);
    else choose(text(row, "name"), membersOf(row));
  };
  return (
    <>
      <div class="hta-diff-head">
        <h3>Names that changed most</h3>
        <Filter name="Filter names" set={(typed) => (filter.value = typed)} />
      </div>
      <p class="hta-about">
        {`sum of ${what}time over ${plural(steps, "step")}${ranks ? ", mean over ranks" : ""}; ` +
          "parallel streams add up, so this column does not sum to the difference" +
          (beyond > 0 ? `; ${plural(beyond, "name")} that changed less in Python` : "")}
      </p>
      <Table
        name="Names that changed most"
        columns={columns}
        rows={rows}
        value={sizeOf}
        order={LARGEST}
        filter={filter.value}
        namesOf={(row) => [text(row, "name"), ...membersOf(row)]}
        isOn={(row) => text(row, "name") === chosen}
        press={press}
        room={room}
        step={50}
        lack={noteOf(frame) || "No such name."}
      />
    </>
  );
}

const LARGEST = { by: "diff_ns", descending: true };

// Changes beyond noise, each once; a click marks their events on both sides.

/** Describe how likely a change is by chance, or state that the spread is unknown. */
export function chanceWords(
  change: string,
  p: unknown,
  hasSteps = true,
): { words: string; about: string } {
  if (change !== "slower" && change !== "faster") {
    return {
      words: hasSteps ? "in most steps" : "–",
      about: "Added and removed calls are not tested.",
    };
  }
  if (typeof p !== "number") {
    return {
      words: "one step",
      about: "With one step on a side the spread is unknown: the threshold is 20 %.",
    };
  }
  const about =
    "How likely the means of the steps differ as much by chance, by t-tests over the steps.";
  if (p < 0.0001) return { words: "p < 0.0001", about };
  return { words: `p ${p < 0.001 ? p.toFixed(4) : p.toFixed(3)}`, about };
}

/** `aten::add ; aten::mul → fused_add_mul`, of replaced work. */
export function replacedWords(row: Row): string {
  const [before, after] = ["before_names", "after_names"].map((column) => {
    const names = text(row, column).split("; ");
    const more = names.length > 2 ? ` and ${names.length - 2} more` : "";
    return names.slice(0, 2).join(", ") + more;
  });
  return before === "" && after === "" ? "" : `${before} → ${after}`;
}

/** Width from which both times and the chance are shown, px. */
const ALL_FROM = 720;

const length = (ns: number): string => (ns > 0 ? formatDuration(Math.round(ns)) : "–");

/** `choose` receives the number of a row, and its name; null if the row is unchosen. */
export function Changes({
  frame,
  theme,
  room,
  chosen,
  whose,
  hasSteps,
  choose,
}: Chooser<number> & {
  /** The ranks, if not all that are compared. */
  whose: string;
  hasSteps: boolean;
  choose(row: number | null, name: string): void;
}) {
  const rows = rowsOf(frame);
  const tested = Number(frame.attrs.tested ?? 0);
  const title = `What changed${whose && `, ${whose}`}`;
  const nameOf = (row: Row): string => text(row, "short") || text(row, "name");
  const columns: Column<Row>[] = [
    {
      by: "change",
      title: "change",
      cell: (row) => {
        const look = classOfChange(
          text(row, "change"),
          number(row, "before_ns"),
          number(row, "after_ns"),
        );
        return (
          <>
            <i class="hta-diff-swatch" style={lookStyle(classLook(look, theme))} />
            {text(row, "change")}
          </>
        );
      },
    },
    {
      by: "name",
      title: "name",
      width: "minmax(80px, 1fr)",
      cell: (row, _, on) => {
        const [path, places] = [text(row, "path"), number(row, "places")];
        const more = places > 1 ? ` and ${places - 1} more` : "";
        const lines = [text(row, "name"), path && `in ${path}${more}`, replacedWords(row)];
        return (
          <>
            <NameButton
              text={nameOf(row)}
              title={lines.filter((line) => line !== "").join("\n")}
              on={on}
            />
            <small>{replacedWords(row) || text(row, "measure")}</small>
          </>
        );
      },
    },
    {
      by: "before_ns",
      title: "before → after",
      from: ALL_FROM,
      isNumber: true,
      cell: (row) => `${length(number(row, "before_ns"))} → ${length(number(row, "after_ns"))}`,
    },
    {
      by: "diff_ns",
      title: hasSteps ? "a step" : "change",
      isNumber: true,
      cell: (row) => (
        <span>
          <b>{deltaWords(number(row, "diff_ns"))}</b>
          {` ${shareWords(number(row, "diff_ns"), number(row, "before_ns"))}`}
        </span>
      ),
    },
    { by: "count", title: "calls", isNumber: true, cell: counts },
    {
      by: "p_value",
      title: "chance",
      from: ALL_FROM,
      isNumber: true,
      cell: (row) => {
        const chance = chanceWords(text(row, "change"), row.p_value, hasSteps);
        return <span title={chance.about}>{chance.words}</span>;
      },
    },
  ];
  return (
    <>
      <h3>{title}</h3>
      <p class="hta-about">
        {`beyond noise, each once; times and counts per ${hasSteps ? "step and " : ""}rank. ` +
          (tested > 0 ? `${plural(tested, "time")} tested. ` : "") +
          (rows.length > 0 ? "Click one to mark its events on both sides." : "")}
      </p>
      <Table
        name={title}
        columns={rows.length > 0 ? columns : []}
        rows={rows}
        value={null}
        namesOf={(row) => [text(row, "name")]}
        isOn={(row) => rows.indexOf(row) === chosen}
        press={(row) => {
          const at = rows.indexOf(row);
          choose(at === chosen ? null : at, nameOf(row));
        }}
        noun="change"
        room={room}
        step={20}
        lack={noteOf(frame) || "Nothing changed beyond the noise."}
      />
    </>
  );
}

// Tables that only some formats have: before, after and the change of each measure side by side.

const FIRST = 12;
const NAMES: Record<string, string> = { mpi: "MPI", byteps: "BytePS" };

/** A measure with a column for each side, and perhaps for the difference. */
interface Measure {
  /** Its column without the prefixes `before_`, `after_` and `diff_`. */
  name: string;
  sides: boolean;
  diff: boolean;
}

/** Group columns by measure, in their order. */
export function measuresOf(columns: readonly string[]): Measure[] {
  const known = new Set(columns);
  const found: Measure[] = [];
  for (const column of columns) {
    const [, side, rest = ""] = /^(before|after|diff)_(.+)$/.exec(column) ?? [];
    const paired = side !== undefined && known.has(`before_${rest}`) && known.has(`after_${rest}`);
    if (!paired) found.push({ name: column, sides: false, diff: false });
    else if (side === "before") {
      found.push({ name: rest, sides: true, diff: known.has(`diff_${rest}`) });
    }
  }
  return found;
}

const UNITS = /(?:^|_)(ns|us|ms|s|bytes|share|pct|mib)$/;
const SHARE = /(?:^|_)share(?:_|$)/;

/** Title of a column, without its unit, which the cells have. */
export function titleOf(column: string): string {
  // MPI: the change of calls and bytes, whatever their time.
  if (column === "change") return "calls and bytes";
  if (SHARE.test(column) || column === "bytes") return column.replaceAll("_", " ");
  return column.replace(UNITS, "").replaceAll("_", " ") || "time";
}

const PER_NS: Record<string, number> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };

export function cellText(column: string, value: unknown, isDelta = false): string {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  if (column.endsWith("p_value")) return value < 0.0001 ? "< 0.0001" : value.toPrecision(2);
  // Calls without a message.
  if (column.startsWith("size_") && value < 0) return "–";
  if (column === "change_share") return shareWords(value, 1);
  const unit = SHARE.test(column) ? "share" : (UNITS.exec(column)?.[1] ?? "");
  const perNs = PER_NS[unit];
  if (perNs !== undefined) {
    const ns = value * perNs;
    if (!isDelta) return formatDuration(ns);
    return Math.abs(ns) < 0.5 ? "±0" : formatDurationDelta(ns);
  }
  const plain = (size: number): string => {
    if (unit === "bytes") return formatBytes(size);
    if (unit === "share") return formatShare(size);
    if (unit === "pct") return formatShare(size / 100);
    if (unit === "mib") return formatBytes(size * 2 ** 20);
    return Number.isInteger(size) ? formatCount(size) : String(Number(size.toPrecision(3)));
  };
  if (!isDelta) return value < 0 ? `−${plain(-value)}` : plain(value);
  if (value === 0) return "±0";
  return `${value > 0 ? "+" : "−"}${plain(Math.abs(value))}`;
}

/** More time is slower; other measures have no better direction. */
function deltaClass(column: string, value: unknown): string {
  const isTime = PER_NS[UNITS.exec(column)?.[1] ?? ""] !== undefined;
  if (!isTime || typeof value !== "number" || cellText(column, value, true) === "±0") return "";
  return value > 0 ? "hta-diff-slower" : "hta-diff-faster";
}

function Cells({ measure: { name, sides, diff }, row }: { measure: Measure; row: Row }) {
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

/** `mpi_message_sizes` as `MPI message sizes`. */
export function tableTitle(name: string): string {
  const [first = "", ...rest] = name.split("_");
  const word = NAMES[first] ?? first.charAt(0).toUpperCase() + first.slice(1);
  return [word, ...rest].join(" ");
}

/** Transpose a single row of many measures into one row per measure. */
function TurnedRow({ measures, row }: { measures: readonly Measure[]; row: Row }) {
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
            <Cells measure={measure} row={row} />
            {!measure.sides && <td />}
            {!(measure.sides && measure.diff) && <td />}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function PlainTable({ name, frame }: { name: string; frame: Frame }) {
  const all = useSignal(false);
  const measures = measuresOf(Object.keys(frame.columns));
  const rows = rowsOf(frame);
  const drawn = all.value ? rows : rows.slice(0, FIRST);
  const left = rows.length - drawn.length;
  const beyond = Number(frame.attrs.rows ?? rows.length) - rows.length;
  const note = noteOf(frame);
  const isPaired = measures.some(({ sides }) => sides);
  return (
    <>
      <h3>{tableTitle(name)}</h3>
      {note !== "" && <p class="hta-about">{note}</p>}
      {rows.length === 0 && note === "" && <p class="hta-note">Nothing.</p>}
      {rows.length > 0 && (
        <div class="hta-diff-scrolls">
          {rows.length === 1 && isPaired ? (
            <TurnedRow measures={measures} row={rows[0]!} />
          ) : (
            <table>
              <Heads measures={measures} isPaired={isPaired} />
              <tbody>
                {drawn.map((row) => (
                  <tr>
                    {measures.map((measure) => (
                      <Cells measure={measure} row={row} />
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
        {left <= 0 && beyond > 0 && `${plural(beyond, "row")} in Python.`}
      </p>
    </>
  );
}

function Heads({ measures, isPaired }: { measures: readonly Measure[]; isPaired: boolean }) {
  const under = measures
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
          {under.map((word) => (
            <th scope="col">{word}</th>
          ))}
        </tr>
      )}
    </thead>
  );
}
