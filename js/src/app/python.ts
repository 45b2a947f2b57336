/** Python text for what is on the screen: valid source, whatever the names in the trace hold. */

import type { Brief, SelectionJson } from "../contract";

const ESCAPES: Record<string, string> = {
  "\\": "\\\\",
  '"': '\\"',
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};

/** A Python string literal. Control characters, odd spaces and lone surrogates are escaped. */
export function pythonString(text: string): string {
  let out = "";
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    const escaped = ESCAPES[character];
    if (escaped !== undefined) out += escaped;
    else if (character === " " || /[\p{L}\p{N}\p{S}\p{P}]/u.test(character)) out += character;
    else if (code <= 0xff) out += `\\x${hex(code, 2)}`;
    else if (code <= 0xffff) out += `\\u${hex(code, 4)}`;
    else out += `\\U${hex(code, 8)}`;
  }
  return `"${out}"`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, "0");
}

/** An integer with the digit groups that make nanoseconds readable. */
export function pythonInt(value: number): string {
  const digits = BigInt(Math.round(value)).toString();
  return digits.replace(/\B(?=(\d{3})+(?!\d))/g, "_");
}

function pythonList(items: readonly string[]): string {
  return `[${items.join(", ")}]`;
}

/** Keyword arguments of `traces.select` that stand for a selection. */
export function selectionArguments(selection: SelectionJson | null): string[] {
  const out: string[] = [];
  if (selection === null) return out;
  if (selection.query !== null) out.push(pythonString(selection.query));
  if (selection.start_ns !== null) out.push(`start_ns=${pythonInt(selection.start_ns)}`);
  if (selection.end_ns !== null) out.push(`end_ns=${pythonInt(selection.end_ns)}`);
  if (selection.ranks !== null) out.push(`ranks=${pythonList(selection.ranks.map(String))}`);
  if (selection.tracks !== null) {
    out.push(`tracks=${pythonList(selection.tracks.map(pythonString))}`);
  }
  if (selection.ids !== null) {
    out.push(`ids={${selection.ids.map(([rank, id]) => `(${rank}, ${id})`).join(", ")}}`);
  }
  return out;
}

export function selectionCode(selection: SelectionJson | null): string {
  return `traces.select(${selectionArguments(selection).join(", ")})`;
}

/** How to get at one event and its arguments. */
export function eventCode(event: Brief): string {
  const trace = `traces[${event.rank}]`;
  if (event.table !== "events") return `${trace}.${event.table}.loc[${event.id}]`;
  return `event = ${trace}.events.loc[${event.id}]\nargs = ${trace}.args(${event.id})`;
}

export interface ExportChoice {
  path: string;
  selection: SelectionJson | null;
  clip: boolean;
  counters: boolean;
  scrub: boolean;
}

export function exportCode(choice: ExportChoice): string {
  const parts = ["traces", pythonString(choice.path)];
  if (choice.selection !== null) parts.push(selectionCode(choice.selection));
  for (const name of ["clip", "counters", "scrub"] as const) {
    if (choice[name]) parts.push(`${name}=True`);
  }
  return `hw.export_trace(${parts.join(", ")})`;
}

/** A pandas query for events of exactly this name, of one category where it is known. */
export function nameQuery(name: string, category: string | null = null): string {
  const query = `name == ${pythonString(name)}`;
  return category === null ? query : `${query} and category == ${pythonString(category)}`;
}
