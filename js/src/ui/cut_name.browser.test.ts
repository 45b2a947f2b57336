/** Names shortened in the middle. */

import { h, render } from "preact";
import { expect, test } from "vitest";
import "../entries/widgets.css";
import { CutName } from "./controls";

test("the end of a name keeps its width while the beginning is truncated", () => {
  const root = document.createElement("div");
  root.className = "hta-root";
  root.style.font = "12px sans-serif";
  document.body.append(root);
  const place = document.createElement("div");
  root.append(place);
  render(h(CutName, { text: "adapters/text_base_model.py:28" }), place);
  const widthOfEnd = (): number =>
    place.querySelector(".hta-cut-name > span:last-child")!.getBoundingClientRect().width;
  const fullWidth = widthOfEnd();
  for (const width of [128.53, 120, 140.7, 133.33]) {
    place.style.width = `${width}px`;
    expect([width, widthOfEnd()]).toEqual([width, fullWidth]);
  }
  root.remove();
});

test.each([
  ["gemm bf16 128x64 nn", "128x64 nn"],
  ["elementwise_add", "_add"],
  ["gelu (backward)", " (backward)"],
  ["conv2d", null],
])("the end of the short name %s is not cut", (text, end) => {
  const place = document.createElement("div");
  render(h(CutName, { text }), place);
  const [start, ...ends] = [...place.querySelectorAll(".hta-cut-name > span")];
  expect(ends.map((node) => node.textContent)).toEqual(end === null ? [] : [end]);
  expect(start!.textContent + (end ?? "")).toBe(text);
});
