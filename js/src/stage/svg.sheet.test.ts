import { describe, expect, test } from "vitest";
import { interpolateStops } from "../ui/theme";
import { paintAttribute, escapeXml, SvgSheet } from "./svg";

const RED = 'fill="#ff0000"';
const BLUE = 'fill="#0000ff"';

/** Return the paths of a sheet in painting order. */
const paths = (sheet: SvgSheet): string[] => sheet.svg(10, 10, "t").match(/^<path.*$/gm)!;

describe("shapes are merged if the picture stays the same", () => {
  test("neighbours on one base are one outline, equal ones one step", () => {
    const sheet = new SvgSheet();
    [4, 4, 6, 8].forEach((top, x) => sheet.addBox(x, top, x + 1, 8, RED));
    expect(paths(sheet)).toEqual([`<path d="M0 8V4H2V6H3V8z" ${RED}/>`]);
  });

  test("a colour continues across other colours elsewhere", () => {
    const sheet = new SvgSheet();
    for (let x = 0; x < 8; x += 2) {
      sheet.addBox(x, 0, x + 1, 8, RED);
      sheet.addBox(x + 1, 0, x + 2, 8, BLUE);
    }
    expect(paths(sheet)).toHaveLength(2);
  });

  test("shapes above others stay above them", () => {
    const sheet = new SvgSheet();
    sheet.addBox(0, 0, 8, 8, RED);
    sheet.addBox(2, 2, 4, 4, BLUE);
    sheet.addBox(3, 3, 5, 5, RED);
    expect(paths(sheet).map((path) => path.includes(RED))).toEqual([true, false, true]);
  });
});

test("colours are in a form that all viewers know", () => {
  expect(paintAttribute("fill", "#0b57b01f", 1)).toBe('fill="#0b57b0" fill-opacity="0.12"');
  expect(paintAttribute("stroke", interpolateStops(["#0102ff", "#000000"], 0), 1)).toBe(
    'stroke="#0102ff"',
  );
  expect(paintAttribute("fill", "#123456", 0.4)).toBe('fill="#123456" fill-opacity="0.4"');
});

test("names are text, whatever they contain", () => {
  expect(escapeXml('<b a="1">&\u0001\ud800')).toBe("&lt;b a=&quot;1&quot;&gt;&amp;\ufffd\ufffd");
});
