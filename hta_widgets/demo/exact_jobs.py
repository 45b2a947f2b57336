"""Small jobs without noise and with known results: a pipeline, experts and a graph.

`write_demo` writes a training job that looks real. The jobs here are smaller and have round times,
so their truth is exact:

============  ==================================================================================
``pipeline``  4 stages on 2 nodes, 4 micro-batches in the order 1F1B, slower last stage
``moe``       4 ranks on 2 nodes that send tokens to experts unevenly; one rank's list is cut
``graph``     a server with two layers: a prefill, and decodes that replay a captured graph
============  ==================================================================================

The server's graph runs on two streams and includes a call that launches nothing. Its capture is in
a separate folder: ``hw.load("DIR/replay", capture="DIR/capture")``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from hta_widgets.arguments import check_arguments
from hta_widgets.demo.device_tasks import gemm
from hta_widgets.demo.files import BASE_NS
from hta_widgets.files import new_folder, write_text

ExactJob = Literal["pipeline", "moe", "graph"]
_HOST, _COMPUTE, _SIDE, _MESSAGES = 4000, 7, 9, 20  # threads and streams
_CALL_NS = 1_000
_BF16_BYTES = 2
_SEND_RECV: Final = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
_A100: Final = {
    "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_097_971_712, "computeMajor": 8,
    "computeMinor": 0, "warpSize": 32, "numSms": 108,
}  # fmt: skip
_MI300X: Final = {
    "name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992, "computeMajor": 9,
    "computeMinor": 4, "warpSize": 64, "numSms": 304,
}  # fmt: skip


@check_arguments
def write_exact_job(
    directory: str | Path, kind: ExactJob = "pipeline", *, truth_path: str | Path | None = None
) -> dict[str, Any]:
    """Write a small job without noise as Kineto files, and the truth about it.

    Parameters
    ----------
    directory : path-like
        Folder for the files; created if missing.
    kind : {"pipeline", "moe", "graph"}, default "pipeline"
        A pipeline of 4 stages; 4 ranks with experts; or a server that replays a graph, in
        subfolders ``replay`` and ``capture``.
    truth_path : path-like, optional
        File for the truth. By default ``<directory>_truth.json``, next to the directory.

    Returns
    -------
    dict
        The contents of the truth file, and its path in ``truth_path``. All kinds have ``ranks`` and
        ``steps``. ``pipeline``: ``schedule_ns, forward_ns, backward_ns, bubble_ns`` and ``flops``
        by stage; ``sent_bytes`` by sender and receiver. ``moe``: ``matrix``, the bytes of the two
        all-to-alls by sender and receiver; ``inter_node_bytes``; ``flops`` by rank. ``graph``:
        ``replays``, with operator and module of each replayed kernel; ``tokens`` and ``phases`` by
        step; ``flops``, the total executed.

    Examples
    --------
    >>> truth = write_exact_job("experts", "moe")
    >>> truth["ranks"]
    4
    """
    folder = new_folder(directory)
    writers: dict[str, Callable[[Path], dict[str, Any]]] = {
        "pipeline": _write_pipeline,
        "moe": _write_experts,
        "graph": _write_graph,
    }
    facts = {"kind": kind, **writers[kind](folder)}
    absolute = folder.resolve()
    path = Path(truth_path) if truth_path else absolute.with_name(f"{absolute.name}_truth.json")
    write_text(path, json.dumps(facts))
    return facts | {"truth_path": str(path)}


@dataclass(slots=True)
class Recorder:
    """The events of one rank. On the host, each begin, end and call takes 1 µs."""

    now_ns: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0
    prefix: str = "cuda"

    @contextmanager
    def range(self, name: str, category: str = "cpu_op", **args: object) -> Iterator[None]:
        """Record a host event around the block."""
        start = self.now_ns
        self.now_ns += _CALL_NS
        yield
        self.now_ns += _CALL_NS
        self._add(category, name, start, self.now_ns, _HOST, _HOST, args)

    def call(self, name: str, **args: object) -> int:
        """Add a runtime call and return its correlation id."""
        self.calls += 1
        start = self.now_ns
        self.now_ns += _CALL_NS
        args["correlation"] = self.calls
        self._add("cuda_runtime", self.prefix + name, start, self.now_ns, _HOST, _HOST, args)
        return self.calls

    def launch(
        self, name: str, start_ns: int, end_ns: int, stream: int = _COMPUTE, **args: object
    ) -> None:
        """Launch a kernel."""
        self.kernel(self.call("LaunchKernel"), name, start_ns, end_ns, stream, **args)

    def kernel(
        self, call: int, name: str, start_ns: int, end_ns: int, stream: int, **args: object
    ) -> None:
        """Add a kernel launched by `call`."""
        args = {"device": 0, "stream": stream, "correlation": call, **args}
        self._add("kernel", name, start_ns, end_ns, 0, stream, args)

    def multiply(self, m: int, n: int, k: int, start_ns: int, end_ns: int) -> int:
        """Record an operator with a matrix product and return its FLOPs."""
        with self.range("aten::mm", **_matrices([m, k], [k, n])):
            self.launch(gemm(m, n, k).name, start_ns, end_ns)
        return 2 * m * n * k

    def _add(
        self, category: str, name: str, start: int, end: int, pid: int, tid: int, args: object
    ) -> None:
        self.events.append(
            {
                "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
                "ts": start / 1000, "dur": (end - start) / 1000, "args": args,
            }
        )  # fmt: skip

    def write(self, folder: Path, rank: int, **header: object) -> None:
        """Write the events to a rank's file."""
        content = {
            "schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, **header,
            "traceEvents": self.events,
        }  # fmt: skip
        write_text(new_folder(folder) / f"rank-{rank}.trace.json", json.dumps(content))


def _matrices(*dims: list[int]) -> dict[str, Any]:
    values = [""] * len(dims)
    types = ["c10::BFloat16"] * len(dims)
    return {"Input Dims": list(dims), "Input type": types, "Concrete Inputs": values}


def _header(rank: int, ranks: int, description: str) -> dict[str, Any]:
    """Return the file header of a rank, with 2 ranks per node and one process group."""
    group = {
        "pg_name": "1", "pg_desc": description, "pg_size": ranks, "ranks": list(range(ranks)),
    }  # fmt: skip
    return {
        "deviceProperties": [{"id": device, **_A100} for device in range(2)],
        "distributedInfo": {
            "backend": "nccl", "rank": rank, "world_size": ranks, "pg_config": [group],
        },
        "host_name": f"node-{rank // 2}",
    }  # fmt: skip


def _group_args(name: str, ranks: int, elements: int, **args: object) -> dict[str, Any]:
    return {
        "Collective name": name, "dtype": "BFloat16", "Group size": ranks,
        "Process Group Name": "1", "Process Group Ranks": str(list(range(ranks))),
        "In msg nelems": elements, "Out msg nelems": elements, **args,
    }  # fmt: skip


_STAGES, _BATCHES, _STEPS = 4, 4, 2
_WIDTH, _TOKENS = 1024, 512
_FORWARD_NS: Final = (40_000, 40_000, 40_000, 60_000)  # per stage; backward takes twice as long
_MESSAGE_NS, _STEP_NS, _HOST_LEAD_NS = 5_000, 2_000_000, 200_000
#: A pass: its direction and micro-batch.
Pass = tuple[Literal["forward", "backward"], int]


def pass_order(stage: int) -> list[Pass]:
    """Return the passes of a stage in 1F1B order: warm-up, then alternating.

    Examples
    --------
    >>> pass_order(3)[:3]
    [('forward', 0), ('backward', 0), ('forward', 1)]
    """
    warm_up = min(_STAGES - stage, _BATCHES)
    order: list[Pass] = [("forward", batch) for batch in range(warm_up)]
    for batch in range(_BATCHES):
        order.append(("backward", batch))
        if batch + warm_up < _BATCHES:
            order.append(("forward", batch + warm_up))
    return order


def pass_times() -> dict[tuple[int, Pass], tuple[int, int]]:
    """Return the start and end of each pass of each stage within a step.

    A pass begins when its stage is free and the message from the neighboring stage has arrived.
    """
    times: dict[tuple[int, Pass], tuple[int, int]] = {}
    passes_left = {stage: pass_order(stage) for stage in range(_STAGES)}
    free_ns = [0] * _STAGES
    while any(passes_left.values()):
        for stage, order in passes_left.items():
            while order and (arrival_ns := _arrival_ns(stage, order[0], times)) is not None:
                start_ns = max(free_ns[stage], arrival_ns)
                length_ns = _FORWARD_NS[stage] * (1 if order[0][0] == "forward" else 2)
                free_ns[stage] = start_ns + length_ns
                times[stage, order.pop(0)] = start_ns, free_ns[stage]
    return times


def _arrival_ns(
    stage: int, done: Pass, times: Mapping[tuple[int, Pass], tuple[int, int]]
) -> int | None:
    """Return when a pass's input arrives: 0 if it has no input, None if not known yet."""
    source = stage - 1 if done[0] == "forward" else stage + 1
    if not 0 <= source < _STAGES:
        return 0
    return times[source, done][1] + _MESSAGE_NS if (source, done) in times else None


def _write_pipeline(folder: Path) -> dict[str, Any]:
    times = pass_times()
    size = _TOKENS * _WIDTH
    schedule_ns = max(end for _, end in times.values()) - min(start for start, _ in times.values())
    stages, sent = [], Counter[str]()
    for stage in range(_STAGES):
        recorder, flops = Recorder(), 0
        for step in range(_STEPS):
            flops = _pipeline_step(recorder, stage, step, times)
        recorder.write(folder, stage, **_header(stage, _STAGES, "mesh_pp"))
        forward_ns = _BATCHES * _FORWARD_NS[stage]
        stages.append(
            {
                "stage": stage, "schedule_ns": schedule_ns, "forward_ns": forward_ns,
                "backward_ns": 2 * forward_ns, "bubble_ns": schedule_ns - 3 * forward_ns,
                "flops": flops,
            }
        )  # fmt: skip
        for peer in (stage - 1, stage + 1):
            if 0 <= peer < _STAGES:
                sent[f"{stage} {peer}"] = _STEPS * _BATCHES * size * _BF16_BYTES
    return {"ranks": _STAGES, "steps": _STEPS, "stages": stages, "sent_bytes": dict(sent)}


def _pipeline_step(
    recorder: Recorder, stage: int, step: int, times: dict[tuple[int, Pass], tuple[int, int]]
) -> int:
    """Record a step of a stage, with `times` from `pass_times`; return its FLOPs."""
    begin = recorder.now_ns = step * _STEP_NS
    zero, flops = begin + _HOST_LEAD_NS, 0
    end = zero + max(last for _, last in times.values())
    with recorder.range(f"ProfilerStep#{step}", "user_annotation"):
        for direction, batch in pass_order(stage):
            start, stop = (zero + edge for edge in times[stage, (direction, batch)])
            if direction == "forward":
                flops += recorder.multiply(_TOKENS, _WIDTH, _WIDTH, start, stop)
            else:
                middle = (start + stop) // 2
                with recorder.range("autograd::engine::evaluate_function: MmBackward0"):
                    flops += recorder.multiply(_TOKENS, _WIDTH, _WIDTH, start, middle)
                    flops += recorder.multiply(_WIDTH, _WIDTH, _TOKENS, middle, stop)
            _pipeline_messages(recorder, stage, (direction, batch), times, zero)
        with (
            recorder.range("Optimizer.step#SGD.step", "user_annotation"),
            recorder.range("aten::_foreach_add_"),
        ):
            recorder.launch("multi_tensor_apply_kernel", end + 10_000, end + 30_000)
        recorder.now_ns = begin + _STEP_NS - 2 * _CALL_NS
    return flops


def _pipeline_messages(
    recorder: Recorder,
    stage: int,
    done: Pass,
    times: dict[tuple[int, Pass], tuple[int, int]],
    zero: int,
) -> None:
    """Send the result of a pass to the next stage, and receive the input for a later pass."""
    forward = 1 if done[0] == "forward" else -1
    for sender, receiver in ((stage, stage + forward), (stage - forward, stage)):
        if min(sender, receiver) < 0 or max(sender, receiver) >= _STAGES:
            continue
        start = zero + times[sender, done][1]
        name = "send" if sender == stage else "recv"
        peers = {"Src Rank": sender, "Dst Rank": receiver}
        args = _group_args(name, _STAGES, _TOKENS * _WIDTH, **peers)
        stream = _MESSAGES + 2 * (sender > receiver) + (sender == stage)
        recorder.launch(_SEND_RECV, start, start + _MESSAGE_NS, stream, **args)


#: Tokens that each rank (row) sends to each rank (column). A token has `_HIDDEN` values.
_ROWS: Final = ((6, 10, 30, 2), (8, 8, 24, 8), (0, 16, 40, 8), (4, 4, 32, 8))
_HIDDEN, _INNER = 64, 128


def _write_experts(folder: Path) -> dict[str, Any]:
    ranks = len(_ROWS)
    received = [list(rows) for rows in zip(*_ROWS, strict=True)]
    flops = []
    for rank in range(ranks):
        recorder = Recorder()
        tokens = sum(received[rank])
        with recorder.range("ProfilerStep#0", "user_annotation"):
            # The profiler truncated the last rank's list. The receivers' lists are complete.
            cut = rank == ranks - 1
            _exchange(recorder, list(_ROWS[rank]), received[rank], 100_000, cut=cut)
            widening = recorder.multiply(tokens, _INNER, _HIDDEN, 200_000, 220_000)
            narrowing = recorder.multiply(tokens, _HIDDEN, _INNER, 220_000, 240_000)
            flops.append(widening + narrowing)
            _exchange(recorder, received[rank], list(_ROWS[rank]), 300_000)
            recorder.now_ns = 500_000
        recorder.write(folder, rank, **_header(rank, ranks, "mesh_ep"))
    row_bytes = _HIDDEN * _BF16_BYTES
    matrix = [
        [(_ROWS[sender][peer] + _ROWS[peer][sender]) * row_bytes for peer in range(ranks)]
        for sender in range(ranks)
    ]
    pairs = ((sender, peer) for sender in range(ranks) for peer in range(ranks))
    crossing = sum(matrix[sender][peer] for sender, peer in pairs if sender // 2 != peer // 2)
    return {
        "ranks": ranks, "steps": 1, "matrix": matrix, "inter_node_bytes": crossing, "flops": flops,
    }  # fmt: skip


def _exchange(
    recorder: Recorder, sent: list[int], received: list[int], start_ns: int, *, cut: bool = False
) -> None:
    args = _group_args("all_to_allv", len(sent), sum(sent) * _HIDDEN)
    args |= {
        "Out msg nelems": sum(received) * _HIDDEN,
        "In split size": f"[{sent[0]}, ...]" if cut else str(sent),
        "Out split size": str(received),
    }
    recorder.launch(_SEND_RECV, start_ns, start_ns + 40_000, _MESSAGES, **args)


_BATCH, _PROMPT = 4, 96
#: Engine steps: annotation, phase and tokens. Decode steps replay the graph.
_ENGINE_STEPS: Final = (
    (f"execute_context_1({_PROMPT})_generation_0(0)", "prefill", _PROMPT),
    (f"execute_context_0(0)_generation_{_BATCH}({_BATCH})", "decode", _BATCH),
    (f"execute_context_1(32)_generation_{_BATCH}({_BATCH})", "mixed", 32 + _BATCH),
    (f"execute_context_0(0)_generation_{_BATCH}({_BATCH})", "decode", _BATCH),
)
_LAYERS = 2


class _GraphNode(NamedTuple):
    """A kernel in the graph; `module` is the path of the module that launched it during capture."""

    module: str
    operator: str
    kernel: str
    stream: int
    length_ns: int


def _layer_nodes(layer: int) -> list[_GraphNode]:
    block, product = f"Block_{layer}", ("aten::mm", "Cijk_BBS_MT64x64_MI16")
    return [
        _GraphNode(block, "aten::rms_norm", "rms_norm_kernel", _COMPUTE, 2_000),
        _GraphNode(f"{block}.Linear_{2 * layer}", *product, _COMPUTE, 6_000),
        _GraphNode(f"{block}.Linear_{2 * layer + 1}", *product, _SIDE, 5_000),
        _GraphNode(block, "aten::add", "add_kernel", _COMPUTE, 1_000),
    ]


def _write_graph(folder: Path) -> dict[str, Any]:
    nodes = [node for layer in range(_LAYERS) for node in _layer_nodes(layer)]
    _write_capture(folder / "capture", nodes)
    recorder = Recorder(prefix="hip")
    flops, replays = 0, []
    for step, (annotation, phase, tokens) in enumerate(_ENGINE_STEPS):
        begin_ns = recorder.now_ns = step * 400_000
        with recorder.range(annotation, "user_annotation"):
            if phase == "decode":
                flops += _replay(recorder, nodes, begin_ns + 100_000)
                replays += [
                    {"step": step, "module": node.module, "operator": node.operator}
                    for node in nodes
                ]
            else:
                for product in range(2 * _LAYERS):
                    start_ns = begin_ns + 100_000 + product * 20_000
                    flops += recorder.multiply(tokens, _WIDTH, _WIDTH, start_ns, start_ns + 20_000)
            recorder.now_ns = begin_ns + 390_000
    recorder.write(folder / "replay", 0, **_server_header())
    return {
        "ranks": 1, "steps": len(_ENGINE_STEPS), "replays": replays, "flops": flops,
        "tokens": [tokens for _, _, tokens in _ENGINE_STEPS],
        "phases": [phase for _, phase, _ in _ENGINE_STEPS],
    }  # fmt: skip


def _replay(recorder: Recorder, nodes: Sequence[_GraphNode], start_ns: int) -> int:
    """Launch the graph and return its FLOPs. Its kernels run one after another."""
    call = recorder.call("GraphLaunch")
    for node in nodes:
        end_ns = start_ns + node.length_ns
        recorder.kernel(call, node.kernel, start_ns, end_ns, node.stream)
        start_ns = end_ns
    products = sum(node.operator == "aten::mm" for node in nodes)
    return products * 2 * _BATCH * _WIDTH * _WIDTH


def _server_header() -> dict[str, Any]:
    return {
        "deviceProperties": [{"id": 0, **_MI300X}],
        "distributedInfo": {"rank": 0, "world_size": 1},
    }


def _write_capture(folder: Path, nodes: Sequence[_GraphNode]) -> None:
    recorder = Recorder(prefix="hip")
    recorder.call("StreamBeginCapture")
    with recorder.range(f"capture_{_BATCH}_FULL", "user_annotation"):
        for block, nodes_of_block in groupby(nodes, lambda node: node.module.partition(".")[0]):
            with recorder.range(f"nn.Module: {block}", "python_function"):
                for node in nodes_of_block:
                    _capture_node(recorder, node)
        recorder.call("LaunchKernel", kernel="empty_grid_kernel")  # launches nothing
    recorder.call("StreamEndCapture")
    recorder.write(folder, 0, **_server_header())


def _capture_node(recorder: Recorder, node: _GraphNode) -> None:
    """Record a node's operator, inside a module if it belongs to a linear layer."""
    linear, rows = node.module.partition(".")[2], [_BATCH, _WIDTH]
    module = recorder.range(f"nn.Module: {linear}", "python_function") if linear else nullcontext()
    inputs = _matrices(rows, [_WIDTH, _WIDTH] if linear else rows)
    with module, recorder.range(node.operator, **inputs):
        recorder.call("LaunchKernel", kernel=node.kernel)
