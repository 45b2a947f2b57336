/** A made-up data-parallel job, event by event, for drawing without a kernel. */

import type { Kind, Scene, SceneRank, SceneStep, SceneTrack } from "../src/protocol/source";

export const KINDS: Kind[] = [
  "compute",
  "communication",
  "memory",
  "sync",
  "cpu",
  "annotation",
  "other",
];
const [COMPUTE, COMMUNICATION, MEMORY, SYNC, CPU, ANNOTATION] = [0, 1, 2, 3, 4, 5];

export interface FakeEvent {
  start: number;
  dur: number;
  kind: number;
  name: string;
}

export interface FakeLane {
  lane: number;
  rank: number;
  /** Sorted by start. */
  events: FakeEvent[];
  slices: boolean;
  samples?: [time: number, value: number][];
}

export interface FakeJob {
  scene: Scene;
  lanes: FakeLane[];
}

/** Small, fast, the same on every machine. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const KERNELS = [
  "s1688gemm 256x64 16x4 nn",
  "wgrad implicit_gemm tf32 128x128x16",
  "conv2d dgrad 128x128x32",
  "nchwToNhwc",
  "bn_fw_tr_1C11",
  "add",
  "vectorized_elementwise relu",
  "softmax_warp_forward",
];
const CALLS = [
  "ConvolutionBackward0",
  "torch::autograd::AccumulateGrad",
  "CudnnBatchNormBackward0",
  "ReluBackward0",
  "AddBackward0",
];
const INNER = ["aten::convolution_backward", "aten::copy_", "aten::cudnn_batch_norm_backward"];

interface RankEvents {
  main: FakeEvent[][];
  backward: FakeEvent[][];
  compute: FakeEvent[];
  nccl: FakeEvent[];
  memory: [number, number][];
  steps: SceneStep[];
  phases: SceneStep[];
}

const STEP = 264e6;

function rankEvents(rank: number, steps: number, slow: number, dense: number): RankEvents {
  const next = random(rank * 7919 + 17);
  const out: RankEvents = {
    main: [[], [], []],
    backward: [[], [], [], []],
    compute: [],
    nccl: [],
    memory: [],
    steps: [],
    phases: [],
  };
  const late = rank === slow ? 9e6 : next() * 1e6;
  for (let step = 0; step < steps; step += 1) {
    const begin = step * STEP + (rank === slow ? 3e6 : next() * 2e5);
    out.steps.push({ name: `ProfilerStep#${step + 4}`, start: begin, dur: STEP - 1e6 });
    out.phases.push({ name: "forward", start: begin, dur: 110e6 });
    out.phases.push({ name: "backward", start: begin + 112e6, dur: 138e6 });
    out.phases.push({ name: "optimizer", start: begin + 252e6, dur: 9e6 });
    out.main[0]!.push(event(begin, STEP - 1e6, ANNOTATION, `ProfilerStep#${step + 4}`));
    calls(out.main, begin + 1e6, begin + 110e6, next, dense, 1);
    out.main[1]!.push(event(begin + 252e6, 8e6, CPU, "Optimizer.step#SGD.step"));
    calls(out.backward, begin + 112e6, begin + 249e6, next, dense, 0);
    kernels(out.compute, begin + 36e6 + late, begin + 235e6 + late, next, dense);
    for (let i = 0; i < 9; i += 1) {
      const at = begin + 8e6 + (i * 232e6) / 9 + (rank === slow ? late : 0);
      const end = begin + 12e6 + (i * 232e6) / 9 + 9e6 * (i % 3) + 9e6;
      out.nccl.push(
        event(at, Math.max(end - at, 1.2e6), COMMUNICATION, "AllReduce ring LL sum f32"),
      );
    }
    for (let i = 0; i < 60; i += 1) {
      out.memory.push([
        begin + (i * STEP) / 60,
        2e9 + 6e9 * Math.sin((Math.PI * i) / 60) + next() * 5e8,
      ]);
    }
  }
  return out;
}

function event(start: number, dur: number, kind: number, name: string): FakeEvent {
  return { start: Math.round(start), dur: Math.round(dur), kind, name };
}

function calls(
  lanes: FakeEvent[][],
  from: number,
  to: number,
  next: () => number,
  dense: number,
  depth: number,
): void {
  let at = from;
  while (at < to) {
    const dur = Math.min(to - at, (20e3 + next() ** 3 * 500e3) / dense);
    if (dur < 100) break;
    lanes[depth]!.push(event(at, dur, CPU, CALLS[Math.floor(next() * CALLS.length)]!));
    let inner = at + dur * 0.1;
    while (depth + 1 < lanes.length && inner < at + dur * 0.85) {
      const part = dur * (0.1 + next() * 0.5);
      const end = Math.min(inner + part, at + dur * 0.95);
      lanes[depth + 1]!.push(
        event(inner, end - inner, CPU, INNER[Math.floor(next() * INNER.length)]!),
      );
      if (depth + 2 < lanes.length) {
        const kind = next() < 0.06 ? SYNC : CPU;
        const name = kind === SYNC ? "cudaStreamSynchronize" : "cudaLaunchKernel";
        lanes[depth + 2]!.push(
          event(inner + 500, Math.max(1000, (end - inner) * 0.15), kind, name),
        );
      }
      inner = end + dur * 0.05 * next();
    }
    at += dur + (next() * 60e3) / dense;
  }
}

function kernels(
  out: FakeEvent[],
  from: number,
  to: number,
  next: () => number,
  dense: number,
): void {
  let at = from;
  while (at < to) {
    const busy = next() < 0.08 ? 0.95 : 0.05 + 0.5 * next() ** 2;
    const until = at + 2e6;
    while (at < until) {
      const dur = (2e3 + next() ** 4 * 300e3) / dense;
      const kind = next() < 0.03 ? MEMORY : COMPUTE;
      const name =
        kind === MEMORY ? "Memset (Device)" : KERNELS[Math.floor(next() * KERNELS.length)]!;
      out.push(event(at, dur, kind, name));
      at += dur / busy;
    }
  }
}

export function fakeJob(
  ranks: number,
  steps = 3,
  dense = 1,
  slow = Math.min(5, ranks - 1),
): FakeJob {
  const lanes: FakeLane[] = [];
  const sceneRanks: SceneRank[] = [];
  let lane = 0;
  let strip: RankEvents | null = null;
  for (let rank = 0; rank < ranks; rank += 1) {
    const made = rankEvents(rank, steps, slow, dense);
    strip ??= made;
    const add = (events: FakeEvent[], slices = true) => {
      lanes.push({ lane, rank, events: [...events].sort((a, b) => a.start - b.start), slices });
      lane += 1;
      return lane - 1;
    };
    const summary: SceneRank["summary"] = [
      { lane: add(made.compute), role: "gpu", label: "compute" },
      { lane: add(made.nccl), role: "comm", label: "NCCL" },
      { lane: add(made.main.slice(1).flat(), false), role: "cpu", label: "main thread" },
      { lane: add(made.backward.flat(), false), role: "cpu", label: "autograd thread" },
    ];
    const track = (label: string, role: SceneTrack["role"], levels: FakeEvent[][]): SceneTrack => {
      const lane0 = lane;
      for (const level of levels) add(level);
      const events = levels.reduce((sum, level) => sum + level.length, 0);
      const gpu = role === "stream";
      return {
        key: `${gpu ? "GPU 0" : "python"} · ${label}`,
        process: gpu ? "GPU 0" : "python",
        label,
        role,
        stream: gpu ? Number(label.slice(7)) : -1,
        lane0,
        lanes: levels.length,
        nested: levels.length,
        events,
        communication: levels === nccl,
      };
    };
    const nccl = [made.nccl];
    const tracks = [
      track("main thread", "thread", made.main),
      track("autograd thread", "thread", made.backward),
      track("stream 7", "stream", [made.compute]),
      track("stream 40", "stream", nccl),
    ];
    const counter: SceneTrack = {
      ...track("GPU memory", "counter", [[]]),
      events: made.memory.length,
      range: [0, 9e9],
      unit: "bytes",
    };
    lanes[lanes.length - 1]!.samples = made.memory;
    tracks.push(counter);
    const all = lanes.filter((one) => one.rank === rank).flatMap((one) => one.events);
    sceneRanks.push({
      rank,
      label: `rank ${rank}`,
      host: null,
      file: `rank-${rank}.json.gz`,
      events: all.length,
      range: [
        all.reduce((least, e) => Math.min(least, e.start), Number.POSITIVE_INFINITY),
        all.reduce((most, e) => Math.max(most, e.start + e.dur), 0),
      ],
      truncated: null,
      problems: 0,
      summary,
      tracks,
    });
  }
  const scene: Scene = {
    version: 1,
    title: "made-up job",
    events: sceneRanks.reduce((sum, rank) => sum + rank.events, 0),
    range: [0, Math.max(...sceneRanks.map(({ range }) => range[1]))],
    kinds: KINDS,
    ranks: sceneRanks,
    lanes: lane,
    steps_rank: 0,
    steps: strip?.steps ?? [],
    phases: strip?.phases ?? [],
    truth: { level: "ok", text: "made up", problems: [] },
  };
  return { scene, lanes };
}
