import { describe, expect, test } from "vitest";
import { shade } from "../ui/theme";
import { attribute, escaped, Sheet } from "./svg";

const RED = 'fill="#ff0000"';
const BLUE = 'fill="#0000ff"';

/** The paths of a sheet, in painting order. */
const paths = (sheet: Sheet): string[] => sheet.svg(10, 10, "t").match(/^<path.*$/gm)!;

describe("shapes are merged if the picture stays the same", () => {
  test("neighbours on one base are one outline, equal ones one step", () => {
    const sheet = new Sheet();
    [4, 4, 6, 8].forEach((top, x) => sheet.box(x, top, x + 1, 8, RED));
    expect(paths(sheet)).toEqual([`<path d="M0 8V4H2V6H3V8z" ${RED}/>`]);
  });

  test("a colour continues past others elsewhere", () => {
    const sheet = new Sheet();
    for (let x = 0; x < 8; x += 2) {
      sheet.box(x, 0, x + 1, 8, RED);
      sheet.box(x + 1, 0, x + 2, 8, BLUE);
    }
    expect(paths(sheet)).toHaveLength(2);
  });

  test("shapes above others stay above them", () => {
    const sheet = new Sheet();
    sheet.box(0, 0, 8, 8, RED);
    sheet.box(2, 2, 4, 4, BLUE);
    sheet.box(3, 3, 5, 5, RED);
    expect(paths(sheet).map((path) => path.includes(RED))).toEqual([true, false, true]);
  });
});

test("colours are as every reader knows them", () => {
  expect(attribute("fill", "#0b57b01f", 1)).toBe('fill="#0b57b0" fill-opacity="0.12"');
  expect(attribute("stroke", shade(["#0102ff", "#000000"], 0), 1)).toBe('stroke="#0102ff"');
  expect(attribute("fill", "#123456", 0.4)).toBe('fill="#123456" fill-opacity="0.4"');
});

test("names are text, whatever they contain", () => {
  expect(escaped('<b a="1">&\u0001\ud800')).toBe("&lt;b a=&quot;1&quot;&gt;&amp;\ufffd\ufffd");
});
