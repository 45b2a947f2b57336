/** The start page with its style sheet. */

import { expect, test } from "vitest";
import { page as viewport } from "vitest/browser";
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

test.each([320, 400, 700])(
  "names and verdicts have at least a third of a page %i px wide",
  async (width) => {
    await viewport.viewport(width, 800);
    const page = new StartPage("runs", () => undefined);
    document.body.append(page.el);
    const text = "The GPU is idle 92 % of its span, launch-bound: 61 launches of 5.07 µs.";
    const verdict = { ranks: 1024, step_ns: 34_600_000, text, picture: {} };
    const entry = {
      files: 1024,
      bytes: 4e9,
      changed_ms: 0,
      formats: ["Kineto"],
      parts: [],
      verdict,
    };
    page.showEntries([{ path: "job", ...entry }]);
    expect(page.el.querySelector("td:nth-child(2)")!.clientWidth).toBeGreaterThan(width / 3);
    page.el.remove();
    await viewport.viewport(1280, 800);
  },
);
