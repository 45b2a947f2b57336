import { expect, test } from "vitest";
import { fitNames, labeledRows, shortenMiddle, TextFitter, textWidth } from "./text";

/** Every character is 6 px wide. */
const fitter = () => new TextFitter((text) => 6 * Array.from(text).length);

test.each([
  ["add", 18, "add"],
  ["a", 6, "a"],
  // At least four characters are kept.
  ["ConvolutionBackward0", 60, "Convoluti…"],
  ["ConvolutionBackward0", 30, "Conv…"],
  ["ConvolutionBackward0", 29, ""],
  // Words are only cut if too little would remain otherwise.
  ["aten::_scaled_dot_product", 72, "aten::_…"],
  ["ampere_bf16_gemm_64x64_nn", 96, "ampere_bf16_…"],
  ["AllReduce ring LL", 78, "AllReduce…"],
  ["mm_operator_of_device", 48, "mm_oper…"],
  // Never leave a space before the ellipsis or split a surrogate pair.
  ["AllReduce ring LL", 66, "AllReduce…"],
  ["𝒜𝒷𝒸𝒹𝑒𝒻𝑔𝒽", 36, "𝒜𝒷𝒸𝒹𝑒…"],
])("%s in %d px is %s", (name, room, label) => {
  expect(fitter().fit(name, room)).toBe(label);
});

test("no label is wider than its space", () => {
  const names = fitter();
  for (let room = 0; room < 200; room += 1) {
    const label = names.fit("vectorized_elementwise relu", room);
    expect(6 * Array.from(label).length).toBeLessThanOrEqual(room);
  }
});

test.each([
  ["ReduceScatter ring LL sum bf16", 28, "ReduceScatter …LL sum bf16"],
  ["aten::_scaled_dot_product_flash_attention", 28, "aten::_scaled_dot…_attention"],
  ["gemm_bf16_128x64_stages_3_nn", 24, "gemm_bf16_128x64_…_3_nn"],
  // Words that are too long are cut.
  ["elementwisekernelwithoutedges", 16, "elementwi…tedges"],
  // Letters of all scripts form words.
  ["операция умножения матриц", 22, "операция … матриц"],
])("%s is cut at words in %d characters", (name, characters, label) => {
  const maxWidth = textWidth("x".repeat(characters));
  expect(shortenMiddle(name, maxWidth)).toBe(label);
  expect(textWidth(label)).toBeLessThanOrEqual(maxWidth);
});

test("names that become equal when cut at words are numbered", () => {
  const names = ["copy_kernel_of_tensor_a_to_host", "copy_kernel_by_tensor_b_to_host"];
  expect(fitNames(names, textWidth("x".repeat(22)))).toEqual([
    "copy_kernel_…_to_host",
    "copy_kernel…_host (2)",
  ]);
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

test("all rows have words if there is space", () => {
  expect([...labeledRows(3, 1, new Set([1]))].sort()).toEqual([0, 1, 2]);
});

test("words of close rows never touch, and late rows take precedence", () => {
  const named = [...labeledRows(32, 8, new Set([3, 4, 20]))].sort((a, b) => a - b);
  expect(named).toEqual([3, 20]);
  expect([...labeledRows(32, 8)]).toEqual([0, 8, 16, 24]);
  expect([...labeledRows(32, 16, new Set([3]), new Set([4, 25]))]).toEqual([3, 25]);
});
