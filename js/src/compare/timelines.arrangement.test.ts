/** Arrangement of both timelines, and the text if the room is too small. */

import { h } from "preact";
import { expect, test } from "vitest";
import { geometryOf } from "../stage/camera";
import { made } from "../ui/dom";
import { ArrangeChoice, arrangedIn, BESIDE_FROM_PX } from "./timelines";

test("timelines lie side by side if there is room, and give the reason otherwise", () => {
  expect(arrangedIn(BESIDE_FROM_PX, "beside")).toEqual({ beside: true, why: "" });
  expect(arrangedIn(1800, "stacked")).toEqual({ beside: false, why: "" });
  const narrow = arrangedIn(BESIDE_FROM_PX - 1, "beside");
  expect(narrow.beside).toBe(false);
  expect(narrow.why).toContain("900 px");
});

test("the choice shows what was chosen, also without room for it", () => {
  const chosen: string[] = [];
  const choose = (arrange: string): unknown => chosen.push(arrange);
  const choice = made(h(ArrangeChoice, { chosen: "beside", why: "stacked: too narrow", choose }));
  const pressed = [...choice.querySelectorAll("[aria-pressed=true]")];
  expect(pressed.map((one) => one.textContent)).toEqual(["beside"]);
  expect(choice.textContent).toContain("too narrow");
  choice.querySelector<HTMLElement>("[data-arrange=stacked]")!.click();
  expect(chosen).toEqual(["stacked"]);
});

test("where they share the width, lanes have more of it", () => {
  const [alone, shared] = [geometryOf(900, 300, 1, 2), geometryOf(900, 300, 1, 2, false, true)];
  expect(shared.lanesWidth).toBeGreaterThan(alone.lanesWidth + 150);
  expect(shared.lanesX + shared.lanesWidth).toBe(900);
});
