/** Popovers close when Tab leaves them. */

import { h, render } from "preact";
import { afterEach, beforeEach, expect, test } from "vitest";
import { OpenerButton } from "./menu";

let root: HTMLElement;
let opener: HTMLButtonElement;

function openWith(...controls: string[]): void {
  const content = () => h("p", {}, "limits", ...controls.map((tag) => h(tag as "input", {})));
  render(h(OpenerButton, { text: "Cautions", content }), root);
  opener = root.querySelector("button")!;
  opener.focus();
  opener.click();
}

const isOpen = () => root.querySelector(".hta-popover") !== null;

/** Press Tab on the focused element. Return false if the default action was prevented. */
function pressTab(shiftKey: boolean): boolean {
  const options = { key: "Tab", shiftKey, bubbles: true, cancelable: true };
  return document.activeElement!.dispatchEvent(new KeyboardEvent("keydown", options));
}

beforeEach(() => {
  root = document.createElement("div");
  root.className = "hta-root";
  document.body.append(root);
});
afterEach(() => root.remove());

test.each([false, true])("a popover without controls closes if Tab leaves its button", (shift) => {
  openWith();
  expect([isOpen(), document.activeElement]).toEqual([true, opener]);
  expect(pressTab(shift)).toBe(true);
  expect([isOpen(), document.activeElement]).toEqual([false, opener]);
});

test.each([
  [["input", "button"], false, true],
  [["input", "button"], true, false],
  [["input"], false, false],
])("Tab in the first of %j, backwards %j", (controls, shift, remains) => {
  openWith(...controls);
  expect(document.activeElement?.tagName).toBe("INPUT");
  expect(pressTab(shift)).toBe(!shift);
  expect(isOpen()).toBe(remains);
  expect(document.activeElement === opener).toBe(!remains);
});
