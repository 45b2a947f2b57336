/** Writing a selection from a page without a kernel: the browser offers the file for download. */

import type { Reply, SelectionJson } from "../contract";
import type { Args } from "./args";
import { type Job, notEmbedded } from "./job";
import { Overview } from "./overview";
import type { Rank } from "./rank";
import { readSelection } from "./selection";
import { type FileOptions, partOf, type RankPart, TraceFile } from "./trace_file";

/** Hands a file to the user. */
export type Save = (name: string, file: Blob) => void;

/** Answer `export`. */
export async function exportSelection(
  job: Job,
  request: Record<string, unknown>,
  argsOf: (rank: Rank) => Args,
  save: Save,
): Promise<Reply> {
  if (request.scrub === true) {
    throw new Error(
      "A saved page does not know which texts name hosts, users or paths. " +
        'Leave "scrub" off, or export from Python.',
    );
  }
  const selection = readSelection(request.selection);
  const parts = await partsOf(job, selection, argsOf);
  if (parts.length === 0) {
    throw new Error("Nothing to export: the selection holds no events of this page.");
  }
  const options: FileOptions = { clip: request.clip === true, counters: request.counters === true };
  const file = new TraceFile(parts, selection, options, job.names, job.page.scene);
  const { text, written } = await file.write(job.page.origin_ns);
  const name = fileName(typeof request.path === "string" ? request.path : "");
  const blob = await asFile(text, name);
  save(name, blob);
  return { reply: { path: name, ...written, bytes: blob.size }, buffer: null };
}

async function partsOf(
  job: Job,
  selection: SelectionJson,
  argsOf: (rank: Rank) => Args,
): Promise<RankPart[]> {
  const parts: RankPart[] = [];
  for (const number of selection.ranks ?? job.numbers) {
    const rank = await job.rank(number);
    if (rank instanceof Overview) throw new Error(notEmbedded(number));
    const args = argsOf(rank);
    const part = partOf(rank, args, selection, job.names);
    if (part === null) continue;
    // A trace without its arguments would look whole and is not.
    if (args.missing !== null) throw new Error(`Rank ${number}: ${args.missing}`);
    parts.push(part);
  }
  return parts;
}

/** A browser saves to its own folder: of a path only the name counts. */
function fileName(path: string): string {
  const name = path.split(/[/\\]/).at(-1) ?? "";
  if (name === "") return "window.json";
  return /\.json(\.gz)?$/i.test(name) ? name : `${name}.json`;
}

async function asFile(text: string, name: string): Promise<Blob> {
  const plain = new Blob([text], { type: "application/json" });
  if (!name.toLowerCase().endsWith(".gz")) return plain;
  const stream = plain.stream().pipeThrough(new CompressionStream("gzip"));
  return new Blob([await new Response(stream).arrayBuffer()], { type: "application/gzip" });
}
