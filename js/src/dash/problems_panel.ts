/** What reading the files skipped, repaired or guessed, most events first. */

import { button } from "../app/controls";
import { fill, h } from "../app/dom";
import { type ProblemLine, problemLines } from "../app/panels/problems";
import type { Scene } from "../contract";
import { formatCount, rangesText } from "../draw/format";

const FIRST = 4;
const LONGEST_TITLE = 60;

export class ProblemsPane {
  readonly el = h("div", { class: "hta-problem-list" });
  private all = false;

  constructor(private readonly scene: () => Scene) {
    this.print();
  }

  get count(): number {
    return problemLines(this.scene()).length;
  }

  showAll(): void {
    this.all = true;
    this.print();
  }

  print(): void {
    const lines = problemLines(this.scene()).sort((a, b) => b.count - a.count);
    const drawn = this.all ? lines : lines.slice(0, FIRST);
    const left = lines.length - drawn.length;
    fill(
      this.el,
      h(
        "header",
        { class: "hta-pane-head" },
        h("h3", {}, "Problems"),
        lines.length > 0 && h("span", { class: "hta-count-badge" }, formatCount(lines.length)),
      ),
      lines.length === 0 &&
        h("p", {}, "Nothing was skipped, repaired or guessed: every event of the files is here."),
      ...drawn.map((line) =>
        h(
          "div",
          { class: "hta-problem", title: line.files.join("\n") },
          h("b", {}, said(line).title),
          h("p", {}, said(line).text),
        ),
      ),
      left > 0 &&
        button({
          text: `${left} more`,
          press: () => this.showAll(),
        }),
    );
  }
}

/** The first part of what happened names it; how often, the rest and where come below. */
function said({ kind, count, detail, ranks }: ProblemLine): { title: string; text: string } {
  const [first = "", ...rest] = detail.split(/; |(?<=[.:]) /);
  const name =
    first.length > 0 && first.length <= LONGEST_TITLE ? first : kind.replaceAll("_", " ");
  const left = name === first ? rest.join("; ") : detail;
  const where =
    ranks.length === 0 ? "" : `rank${ranks.length === 1 ? "" : "s"} ${rangesText(ranks)}`;
  const parts = [`${formatCount(count)}×`, where, left].filter((part) => part !== "");
  return { title: upper(name.replace(/[.:]$/, "")), text: parts.join(" · ") };
}

function upper(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
