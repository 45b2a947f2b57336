/** The list of records that were skipped, repaired or guessed when the files were read. */

import { THIN_SPACE, rangesText } from "../../facts/rank_text";
import { getOrMake } from "../../protocol/maps";
import type { ReadProblem, Scene } from "../../protocol/source";
import { CloseButton } from "../../ui/controls";
import { formatCount, plural } from "../../ui/formats";

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
            Nothing was skipped, repaired or guessed: every event in the files is shown.
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
        {lines.map(({ kind, count, ranks, detail, details, files }) => (
          <tr>
            <th scope="row">{kind.replaceAll("_", " ")}</th>
            <td class="hta-number">{formatCount(count)}</td>
            <td>{ranks.length === 0 ? "–" : rangesText(ranks)}</td>
            <td class="hta-wrap" title={[...details].join("\n")}>
              {detail}
            </td>
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
  /** Texts from the readers; several if the line combines details of the same form. */
  details: Set<string>;
  ranks: number[];
  files: string[];
}

/** Minimum number of details, differing only in names and numbers, that share a line. */
const MIN_ALIKE = 3;

/** Return a detail without names and numbers, such as `left out: … holds the same run`. */
function formOf(detail: string): string {
  return detail.replace(/[^\s,;:()]*\d[^\s;:()]*(?<!,)/g, "…");
}

/** Separate thousands with thin spaces, as in the page, except in quoted names. */
function groupThousands(text: string): string {
  return text.replace(/(["']).*?\1|(?<=\d),(?=\d{3}(?!\d))/g, (part) =>
    part === "," ? THIN_SPACE : part,
  );
}

/** Return problems for truncated files that the readers did not report. */
function unreportedTruncations({ ranks, truth }: Scene): ReadProblem[] {
  const truncations = truth.problems.filter(({ kind }) => kind === "truncated");
  const reported = new Set(truncations.map(({ rank }) => rank));
  return ranks.flatMap(({ rank, file, truncated: detail }) =>
    detail === null || reported.has(rank)
      ? []
      : [{ kind: "truncated", count: 1, rank, file, detail }],
  );
}

/** Return one line per problem for all of its ranks. Truncated files always have a line. */
export function problemLines(scene: Scene): ProblemLine[] {
  const problems = [...scene.truth.problems, ...unreportedTruncations(scene)].map((problem) => ({
    ...problem,
    form: formOf(problem.detail),
  }));
  const detailsOf = new Map<string, Set<string>>();
  for (const { kind, detail, form } of problems) {
    getOrMake(detailsOf, `${kind}\n${form}`, () => new Set()).add(detail);
  }
  const lines = new Map<string, ProblemLine>();
  for (const { kind, count, detail, form, rank, file } of problems) {
    const isAlike = detailsOf.get(`${kind}\n${form}`)!.size >= MIN_ALIKE;
    const text = isAlike ? form : groupThousands(detail);
    const line = getOrMake(lines, `${kind}\n${text}`, (): ProblemLine => {
      return { kind, count: 0, detail: text, details: new Set(), ranks: [], files: [] };
    });
    line.count += count;
    line.details.add(detail);
    if (rank !== null && !line.ranks.includes(rank)) line.ranks.push(rank);
    if (file !== null && !line.files.includes(file)) line.files.push(file);
  }
  return [...lines.values()];
}

function filesText(files: readonly string[]): string {
  const [only = "–", ...others] = files;
  return others.length === 0 ? only.split(/[\\/]/).at(-1)! : plural(files.length, "file");
}
