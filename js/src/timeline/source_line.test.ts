import { expect, test } from "vitest";
import type { Brief, EventDetail } from "../protocol/source";
import { findSourceLine } from "./source_line";

/** Return the source line of a kernel below these frames, innermost first. */
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
    "vllm/v1/worker/gpu_model_runner.py(1201): execute_model",
    "transformers/modeling_utils.py(3): f",
    "sglang\\srt\\layers\\linear.py(3): forward",
    "dataclasses.py(3): __init__",
    "/tmp/torchinductor_root/ob/cob.py(3): call",
  ])
    expect(lineBelow(skipped, "models/torch_layers.py(82): f", outer), skipped).toBe(
      "models/torch_layers.py:82 f",
    );
  expect(lineBelow("C:\\work\\train.py(7): <lambda>")).toBe("C:\\work\\train.py:7 <lambda>");
  expect(lineBelow("torch/autograd/graph.py(3): run")).toBeNull();
  expect(lineBelow("my/vllm/copy.py(7): run")).toBe("my/vllm/copy.py:7 run");
});

test("the innermost frame of a package leads if no frame is the user's", () => {
  const names = ["json/decoder.py(1): f", "torch/_ops.py(2): g", "vllm/worker.py(9): run"];
  expect(lineBelow(...names, "vllm/main.py(3): main")).toBe("vllm/worker.py:9 run");
  const installed = "/opt/lib/python3.11/site-packages/apex/optim.py(3): step";
  expect(lineBelow("/opt/lib/python3.11/abc.py(3): f", installed)).toContain("apex/optim.py:3");
  expect(lineBelow("/opt/lib/python3.11/site-packages/torch/_ops.py(3): f")).toBeNull();
});
