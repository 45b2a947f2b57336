/** What reading the files skipped, repaired or guessed, most events first. */

import { button } from "../app/controls";
import { fill, h } from "../app/dom";
import { problemLines } from "../app/panels/problems";
import type { Scene } from "../contract";
import { formatCount, rangesText } from "../draw/format";

const FIRST = 4;

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
          h("b", {}, `${title(line.kind)}: ${formatCount(line.count)}`),
          h(
            "p",
            {},
            line.detail,
            line.ranks.length > 0 &&
              h(
                "span",
                { class: "hta-note" },
                ` ${line.ranks.length === 1 ? "Rank" : "Ranks"} ${rangesText(line.ranks)}.`,
              ),
          ),
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

function title(kind: string): string {
  const text = kind.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
