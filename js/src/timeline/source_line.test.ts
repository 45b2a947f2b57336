import { expect, test } from "vitest";
import type { Brief, EventDetail } from "../protocol/source";
import { findSourceLine } from "./source_line";

/** The source line of a kernel below these frames, innermost first. */
function lineBelow(...names: string[]): string | null {
  const frames = names.map((name) => ({ name }) as Brief);
  const detail = { event: { name: "gemm" }, launched_by: { frames }, parents: [] };
  const source = findSourceLine(detail as unknown as EventDetail);
  return source && `${source.path}:${source.line} ${source.function}`;
}

test("the innermost frame outside of torch, packages and Python leads", () => {
  const outer = "train.py(184): main";
  for (const skipped of [
    "torch/nn/functional.py(2103): softmax",
    "/opt/venv/lib/python3.11/site-packages/apex/optim.py(3): step",
    "/usr/lib/python3/dist-packages/numpy/core.py(3): dot",
    "/usr/lib/python3.12/json/decoder.py(3): decode",
    "contextlib.py(79): inner",
    "<string>(1): <module>",
    "<built-in method item of Tensor object at 0x7f>",
    "nn.Module: Linear_0",
  ])
    expect(lineBelow(skipped, "models/torch_layers.py(82): f", outer), skipped).toBe(
      "models/torch_layers.py:82 f",
    );
  expect(lineBelow("C:\\work\\train.py(7): <lambda>")).toBe("C:\\work\\train.py:7 <lambda>");
  expect(lineBelow("torch/autograd/graph.py(3): run")).toBeNull();
});
