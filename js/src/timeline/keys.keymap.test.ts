import { describe, expect, test } from "vitest";
import { HELP, type KeyPress, matchKey } from "./keys";

function press(key: string, more: Partial<KeyPress> = {}): KeyPress {
  const letter = /^[a-z]$/i.test(key) ? `Key${key.toUpperCase()}` : "";
  const digit = /^\d$/.test(key) ? `Digit${key}` : "";
  const code = letter || digit || key;
  return { key, code, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...more };
}

const command = (key: string, more: Partial<KeyPress> = {}): string | null =>
  matchKey(press(key, more))?.command ?? null;

describe("the binding table", () => {
  test.each([
    ["w", {}, "zoom-in"],
    ["s", {}, "zoom-out"],
    ["a", {}, "pan-left"],
    ["d", {}, "pan-right"],
    ["ArrowUp", {}, "rows-up"],
    ["ArrowDown", {}, "rows-down"],
    ["ArrowLeft", {}, "previous"],
    ["ArrowRight", {}, "next"],
    [",", {}, "previous-event"],
    [".", {}, "next-event"],
    ["f", {}, "zoom-selection"],
    ["z", {}, "fit"],
    ["0", {}, "fit"],
    ["Backspace", {}, "undo"],
    ["b", {}, "undo"],
    ["z", { ctrlKey: true }, "undo"],
    ["z", { metaKey: true }, "undo"],
    ["Z", { ctrlKey: true, shiftKey: true }, "redo"],
    ["m", {}, "mark"],
    ["M", { shiftKey: true }, "mark-keep"],
    ["Delete", {}, "unmark"],
    ["r", {}, "select-window"],
    ["a", { ctrlKey: true }, "select-all"],
    ["[", {}, "flow-back"],
    ["]", {}, "flow-forward"],
    ["/", {}, "search"],
    ["Enter", {}, "hit-next"],
    ["Enter", { shiftKey: true }, "hit-previous"],
    ["p", {}, "pin"],
    ["c", {}, "color"],
    ["g", {}, "open-all"],
    ["x", {}, "export"],
    ["?", { shiftKey: true, code: "Slash" }, "help"],
    ["Escape", {}, "leave"],
    ["3", {}, "bookmark-go"],
    ["3", { ctrlKey: true }, "bookmark-set"],
  ] as const)("%s %o", (key, more, expected) => {
    expect(command(key, more)).toBe(expected);
  });

  test("Shift makes movement faster", () => {
    expect(matchKey(press("W", { shiftKey: true }))).toMatchObject({
      command: "zoom-in",
      fast: true,
    });
    expect(matchKey(press("w"))?.fast).toBe(false);
  });

  test("keys of the host and the browser have no binding", () => {
    for (const key of ["p", "b", "s", "c", "v", "f", "w", "d", "r", "t", "l"]) {
      expect(command(key, { ctrlKey: true })).toBeNull();
      expect(command(key, { metaKey: true })).toBeNull();
    }
    expect(command("P", { ctrlKey: true, shiftKey: true })).toBeNull();
    expect(command("w", { altKey: true })).toBeNull();
    for (const key of ["j", "k", "q", "F5", "Tab", "PageDown"]) expect(command(key)).toBeNull();
  });
});

const altGr = {
  ctrlKey: true,
  altKey: true,
  getModifierState: (name: string) => name === "AltGraph",
};

/** On AZERTY, the keys at the positions of W A S D move; the W key is at the position of Z. */
test.each<[string, string, Partial<KeyPress>, string]>([
  ["AZERTY", "z", { code: "KeyW" }, "zoom-in"],
  ["AZERTY", "q", { code: "KeyA" }, "pan-left"],
  ["AZERTY", "w", { code: "KeyZ" }, "fit"],
  ["AZERTY", "à", { code: "Digit0" }, "fit"],
  ["AZERTY", "m", { code: "Semicolon" }, "mark"],
  ["QWERTZ", "[", { ...altGr, code: "Digit8" }, "flow-back"],
  ["QWERTZ", "/", { shiftKey: true, code: "Digit7" }, "search"],
  ["QWERTZ", "z", { ctrlKey: true, code: "KeyY" }, "undo"],
  ["Cyrillic", "а", { code: "KeyF" }, "zoom-selection"],
  ["Cyrillic", "я", { code: "KeyZ", ctrlKey: true }, "undo"],
])("on %s %s, %o, is %s", (_, key, more, wanted) => {
  expect(command(key, more)).toBe(wanted);
});

test("the help sheet names every group and no empty line", () => {
  const titles = HELP.map(({ title }) => title).join(", ");
  expect(titles).toBe("Move, Select, Find and mark, Rows and more");
  for (const line of HELP.flatMap((group) => group.lines)) {
    expect(line.keys.flat().every((key) => key.length > 0)).toBe(true);
    expect(line.text).not.toBe("");
  }
});
