/** Arrangement of both timelines, and the rows of tables that make columns end at one height. */

import { h } from "preact";
import { expect, test } from "vitest";
import { computeGeometry } from "../stage/camera";
import { renderElement } from "../ui/dom";
import { splitRows, rowsForHeight } from "./charts";
import { ArrangeChoice, arrangementFor, BESIDE_FROM_PX } from "./timelines";

test("timelines lie side by side if there is room, and give the reason otherwise", () => {
  expect(arrangementFor(BESIDE_FROM_PX, "beside")).toEqual({ beside: true, reason: "" });
  expect(arrangementFor(1800, "stacked")).toEqual({ beside: false, reason: "" });
  const narrow = arrangementFor(BESIDE_FROM_PX - 1, "beside");
  expect(narrow.beside).toBe(false);
  expect(narrow.reason).toContain("900 px");
});

test("the choice shows what was chosen, also without room for it", () => {
  const chosen: string[] = [];
  const choose = (arrange: string): unknown => chosen.push(arrange);
  const choice = renderElement(
    h(ArrangeChoice, { chosen: "beside", why: "stacked: too narrow", choose }),
  );
  const pressed = [...choice.querySelectorAll("[aria-pressed=true]")];
  expect(pressed.map((button) => button.textContent)).toEqual(["beside"]);
  expect(choice.textContent).toContain("too narrow");
  choice.querySelector<HTMLElement>("[data-arrange=stacked]")!.click();
  expect(chosen).toEqual(["stacked"]);
});

test("where they share the width, lanes have more of it", () => {
  const [alone, shared] = [
    computeGeometry(900, 300, 1, 2),
    computeGeometry(900, 300, 1, 2, false, true),
  ];
  expect(shared.lanesWidth).toBeGreaterThan(alone.lanesWidth + 150);
  expect(shared.lanesX + shared.lanesWidth).toBe(900);
});

test("a table takes as many rows as make it as high as its neighbour", () => {
  const table = { height: 90 + 10 * 25, shown: 10, row: 25 };
  expect(rowsForHeight(table.height, table)).toBe(10);
  expect(rowsForHeight(table.height + 60, table)).toBe(12);
  expect(rowsForHeight(table.height - 1, table)).toBe(9);
  // The result does not depend on the initial number of rows, so it cannot oscillate.
  expect(rowsForHeight(400, { ...table, height: 90 + 3 * 25, shown: 3 })).toBe(
    rowsForHeight(400, table),
  );
  expect(rowsForHeight(400, { height: 90, shown: 0, row: 0 })).toBe(0);
});

test("names give way to changes, but not all of them", () => {
  expect(splitRows(30)).toEqual({ names: 20, changes: 10 });
  expect(splitRows(16)).toEqual({ names: 8, changes: 8 });
  expect(splitRows(2)).toEqual({ names: 8, changes: 6 });
  expect(splitRows(500).names).toBe(60);
});
