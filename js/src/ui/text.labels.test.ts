import { expect, test } from "vitest";
import { TextFitter } from "./text";

/** Every character is 6 wide. */
const fitter = () => new TextFitter((text) => 6 * Array.from(text).length);

test("a name that fits is whole", () => {
  expect(fitter().fit("add", 18)).toBe("add");
  expect(fitter().fit("a", 6)).toBe("a");
});

test("a cut name keeps at least four characters", () => {
  const names = fitter();
  expect(names.fit("ConvolutionBackward0", 60)).toBe("Convoluti…");
  expect(names.fit("ConvolutionBackward0", 30)).toBe("Conv…");
  expect(names.fit("ConvolutionBackward0", 29)).toBe("");
});

test("no label is wider than its room", () => {
  const names = fitter();
  for (let room = 0; room < 200; room += 1) {
    const label = names.fit("vectorized_elementwise relu", room);
    expect(6 * Array.from(label).length).toBeLessThanOrEqual(room);
  }
});

test("no space stands before the ellipsis, no character is cut in two", () => {
  expect(fitter().fit("AllReduce ring LL", 66)).toBe("AllReduce…");
  expect(fitter().fit("𝒜𝒷𝒸𝒹𝑒𝒻𝑔𝒽", 36)).toBe("𝒜𝒷𝒸𝒹𝑒…");
});

test("measures each character once", () => {
  let calls = 0;
  const names = new TextFitter((text) => {
    calls += 1;
    return 6 * text.length;
  });
  for (let i = 0; i < 100; i += 1) names.fit("aaaabbbbcccc", 50);
  expect(calls).toBe(4);
});
