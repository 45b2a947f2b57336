/** The start page with its style sheet. */

import { expect, test } from "vitest";
import KINDS from "../../../hta_widgets/facts/kinds.json";
import "../entries/view.css";
import { applyTheme, THEMES } from "../ui/theme";
import { StartPage } from "./start";

test.each(["light", "dark"] as const)("work of every kind has its colour: %s", (theme) => {
  const kinds = Object.keys(KINDS) as (keyof typeof KINDS)[];
  const page = new StartPage("runs", () => undefined);
  applyTheme(page.el, theme);
  document.body.append(page.el);
  const picture = Object.fromEntries(kinds.map((kind) => [kind, [10]]));
  const verdict = { ranks: 1, step_ns: null, text: "", picture };
  const entry = { files: 1, bytes: 1, changed_ms: 0, formats: [], parts: [], verdict };
  page.showEntries([{ path: "job", ...entry }]);
  const probe = document.createElement("i");
  page.el.append(probe);
  for (const kind of kinds) {
    probe.style.color = THEMES[theme].kind[kind];
    const path = page.el.querySelector(`path[data-kind=${kind}]`)!;
    expect([kind, getComputedStyle(path).fill]).toEqual([kind, getComputedStyle(probe).color]);
  }
  page.el.remove();
});
