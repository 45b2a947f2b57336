/** List of records that reading skipped, repaired or guessed. */

import type { ReadProblem, Scene } from "../../protocol/source";
import { CloseButton } from "../../ui/controls";
import { formatCount, plural, rangesText } from "../../ui/formats";

export function ProblemsPanel({ scene, close }: { scene: Scene; close(): void }) {
  const lines = problemLines(scene);
  return (
    <div class="hta-panel hta-problems">
      <div class="hta-head">
        <h3>Problems</h3>
        <span class="hta-note hta-grow">{scene.truth.text}</span>
        <CloseButton close={close} />
      </div>
      <div class="hta-scroll" tabIndex={0} role="group" aria-label="Problems">
        {lines.length === 0 ? (
          <p class="hta-pad">
            Nothing was skipped, repaired or guessed: every event of the files is here.
          </p>
        ) : (
          <ProblemTable lines={lines} />
        )}
      </div>
    </div>
  );
}

function ProblemTable({ lines }: { lines: readonly ProblemLine[] }) {
  return (
    <table class="hta-table hta-problem-table">
      <thead>
        <tr>
          <th scope="col">kind</th>
          <th scope="col" class="hta-number">
            count
          </th>
          <th scope="col">rank</th>
          <th scope="col">what happened, and what it means</th>
          <th scope="col">file</th>
        </tr>
      </thead>
      <tbody>
        {lines.map(({ kind, count, ranks, detail, files }) => (
          <tr>
            <th scope="row">{kind.replaceAll("_", " ")}</th>
            <td class="hta-number">{formatCount(count)}</td>
            <td>{ranks.length === 0 ? "–" : rangesText(ranks)}</td>
            <td class="hta-wrap">{detail}</td>
            <td title={files.join("\n")}>{filesText(files)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export interface ProblemLine {
  kind: string;
  count: number;
  detail: string;
  ranks: number[];
  files: string[];
}

/** One line per problem of several ranks; a truncated file has one even if it is not reported. */
export function problemLines(scene: Scene): ProblemLine[] {
  const reported = new Set(
    scene.truth.problems
      .filter((problem) => problem.kind === "truncated")
      .map((problem) => problem.rank),
  );
  const unreported = scene.ranks
    .filter((rank) => rank.truncated !== null && !reported.has(rank.rank))
    .map((rank): ReadProblem => ({
      kind: "truncated",
      count: 1,
      rank: rank.rank,
      file: rank.file,
      detail: rank.truncated ?? "",
    }));
  const lines = new Map<string, ProblemLine>();
  for (const { kind, count, detail, rank, file } of [...scene.truth.problems, ...unreported]) {
    const key = `${kind}\n${detail}`;
    const line = lines.get(key) ?? { kind, count: 0, detail, ranks: [], files: [] };
    line.count += count;
    if (rank !== null && !line.ranks.includes(rank)) line.ranks.push(rank);
    if (file !== null && !line.files.includes(file)) line.files.push(file);
    lines.set(key, line);
  }
  return [...lines.values()];
}

function filesText(files: readonly string[]): string {
  const [only = "–", ...others] = files;
  return others.length === 0 ? only.split(/[\\/]/).at(-1)! : plural(files.length, "file");
}
