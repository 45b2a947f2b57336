/** List of records that reading skipped, repaired or guessed. */

import type { Problem, Scene } from "../../protocol/source";
import { closeButton } from "../../ui/controls";
import { fill, h } from "../../ui/dom";
import { formatCount, plural, rangesText } from "../../ui/formats";

export class ProblemsPanel {
  readonly name = "Problems";
  readonly el: HTMLElement;

  constructor(private readonly close: () => void) {
    this.el = h("div", { class: "hta-panel hta-problems" });
  }

  show(scene: Scene): void {
    const { truth } = scene;
    const lines = problemLines(scene);
    fill(
      this.el,
      h(
        "div",
        { class: "hta-head" },
        h("h3", {}, "Problems"),
        h("span", { class: "hta-note hta-grow" }, truth.text),
        closeButton(this.close, ""),
      ),
      h(
        "div",
        { class: "hta-scroll", tabindex: 0, role: "group", "aria-label": "Problems" },
        lines.length === 0
          ? h(
              "p",
              {},
              "Nothing was skipped, repaired or guessed: every event of the files is here.",
            )
          : table(lines),
      ),
    );
  }
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
  const told = new Set(
    scene.truth.problems.filter((one) => one.kind === "truncated").map((one) => one.rank),
  );
  const untold = scene.ranks
    .filter((rank) => rank.truncated !== null && !told.has(rank.rank))
    .map((rank): Problem => ({
      kind: "truncated",
      count: 1,
      rank: rank.rank,
      file: rank.file,
      detail: rank.truncated ?? "",
    }));
  const lines = new Map<string, ProblemLine>();
  for (const { kind, count, detail, rank, file } of [...scene.truth.problems, ...untold]) {
    const key = `${kind}\n${detail}`;
    const line = lines.get(key) ?? { kind, count: 0, detail, ranks: [], files: [] };
    line.count += count;
    if (rank !== null && !line.ranks.includes(rank)) line.ranks.push(rank);
    if (file !== null && !line.files.includes(file)) line.files.push(file);
    lines.set(key, line);
  }
  return [...lines.values()];
}

function table(lines: readonly ProblemLine[]): HTMLElement {
  const heads = ["kind", "count", "rank", "what happened, and what it means", "file"];
  return h(
    "table",
    { class: "hta-table hta-problem-table" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ...heads.map((text) =>
          h("th", { scope: "col", class: text === "count" && "hta-number" }, text),
        ),
      ),
    ),
    h(
      "tbody",
      {},
      ...lines.map((line) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, line.kind.replaceAll("_", " ")),
          h("td", { class: "hta-number" }, formatCount(line.count)),
          h("td", {}, line.ranks.length === 0 ? "–" : rangesText(line.ranks)),
          h("td", { class: "hta-wrap" }, line.detail),
          h("td", { title: line.files.join("\n") }, filesText(line.files)),
        ),
      ),
    ),
  );
}

function filesText(files: readonly string[]): string {
  const only = files.length === 1 ? files[0] : undefined;
  if (only !== undefined) return lastPart(only);
  return files.length === 0 ? "–" : plural(files.length, "file");
}

function lastPart(path: string): string {
  return path.split(/[\\/]/).at(-1) ?? path;
}
