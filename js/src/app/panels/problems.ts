/** What reading the files skipped, repaired or guessed. */

import type { Scene } from "../../contract";
import { formatCount } from "../../draw/format";
import { fill, h } from "../dom";
import { closeButton } from "./parts";

export class ProblemsPanel {
  readonly id = "problems" as const;
  readonly name = "Problems";
  readonly el: HTMLElement;

  constructor(private readonly close: () => void) {
    this.el = h("div", { class: "hta-panel hta-problems" });
  }

  show(scene: Scene): void {
    const { truth } = scene;
    const cut = scene.ranks.filter((rank) => rank.truncated !== null);
    fill(
      this.el,
      h(
        "div",
        { class: "hta-head" },
        h("h3", {}, "What is known of this data"),
        h("span", { class: "hta-note hta-grow" }, truth.text),
        closeButton(this.close, ""),
      ),
      h(
        "div",
        { class: "hta-scroll", tabindex: 0, role: "group", "aria-label": "Problems" },
        truth.problems.length === 0 && cut.length === 0
          ? h(
              "p",
              {},
              "Nothing was skipped, repaired or guessed: every event of the files is here.",
            )
          : table(scene),
      ),
    );
  }
}

function table(scene: Scene): HTMLElement {
  const { problems } = scene.truth;
  const told = new Set(problems.filter((one) => one.kind === "truncated").map((one) => one.rank));
  const cut = scene.ranks
    .filter((rank) => rank.truncated !== null && !told.has(rank.rank))
    .map((rank) => ({
      kind: "truncated",
      count: 1,
      rank: rank.rank,
      file: rank.file,
      detail: rank.truncated ?? "",
    }));
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
          h(
            "th",
            { scope: "col", class: text === "count" || text === "rank" ? "hta-number" : "" },
            text,
          ),
        ),
      ),
    ),
    h(
      "tbody",
      {},
      ...[...problems, ...cut].map((problem) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, problem.kind.replaceAll("_", " ")),
          h("td", { class: "hta-number" }, formatCount(problem.count)),
          h("td", { class: "hta-number" }, problem.rank === null ? "–" : String(problem.rank)),
          h("td", { class: "hta-wrap" }, problem.detail),
          h(
            "td",
            { title: problem.file ?? "" },
            problem.file === null ? "–" : lastPart(problem.file),
          ),
        ),
      ),
    ),
  );
}

function lastPart(path: string): string {
  return path.split(/[\\/]/).at(-1) ?? path;
}
