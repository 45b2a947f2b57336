"""Rules that classify events into kinds of work; users can add rules.

The first matching rule applies. A rule matches the category of an event, its name, or both. Rules
added with `add` precede the built-in ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.arguments import check_arguments, match_pattern, require_pattern
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts

__all__ = ["KINDS", "add", "kind_of", "reset", "rules"]  # noqa: F822 - defined by `__getattr__`

#: All kinds; the code of a kind is its index.
KINDS: Final[tuple[str, ...]] = tuple(facts("kinds"))

#: Categories of device work. Case is ignored: files from 2021 have "Kernel" and "Memcpy", later
#: ones "kernel" and "gpu_memcpy".
_DEVICE_WORK: Final = r"(\w+_)?kernel|mtia_ccp_events|hpu_op|gpu_op"
_COPIES: Final = r"(gpu_)?(memcpy|memset)"
_SYNCS: Final = r"(cuda|hip|gpu|xpu|mtia)_(sync|event)"
#: Category of BytePS worker events, written since 2019-12; readers add it to older files.
_BYTEPS: Final = "Comm"
_BYTEPS_TRANSFERS: Final = r"\.(\w+_)?(PUSH|PULL|SEND|RECV|REDUCE|BROADCAST|ALLGATHER)$"
#: Category of MPI calls that communicate.
MPI_CATEGORY: Final = "mpi"
#: Prefix of names in a Horovod timeline while ranks negotiate a tensor.
HOROVOD_PHASE: Final = "NEGOTIATE_"
_HOROVOD_PHASES: Final = r"^(NEGOTIATE|NCCL|MPI|GLOO|CCL|ADASUM|SHM|DDL)_"
_ANNOTATIONS: Final = r"(gpu_)?user_annotation"

#: Names of collectives in host libraries, and of PyTorch calls to any library.
HOST_LIBRARIES: Final = r"(gloo|mpi|ucc):"
HOST_CALLS: Final = "c10d::"
HOST_COLLECTIVES: Final = rf"^({HOST_LIBRARIES}|{HOST_CALLS})"

_DEVICE_CATEGORY: Final = re.compile(
    rf"{_DEVICE_WORK}|{_COPIES}|{_SYNCS}|gpu_user_annotation|collective_comm", re.IGNORECASE
)
_DEVICE_WORK_CATEGORY: Final = re.compile(_DEVICE_WORK, re.IGNORECASE)
_STREAM_WORK: Final = re.compile(rf"(\w+_)?kernel|{_COPIES}", re.IGNORECASE)
_GRAPH_LAUNCH: Final = re.compile(r"graph_?launch", re.IGNORECASE)

#: Values of `Rule.level`: for all ranks, for ranks without device work, and for host figures of
#: ranks without device work. Each level includes the rules of all lower levels.
_WITH_DEVICES: Final = 0
_WITHOUT_DEVICES: Final = 1
_HOST_FIGURES: Final = 2


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for events by category (full match) and name (search); None matches everything."""

    kind: str
    category: str | None
    name: str | None
    note: str
    ignore_case: bool = True
    #: the level from which the rule applies, see `_WITH_DEVICES`
    level: int = _WITH_DEVICES

    def category_matches(self, category: str) -> bool:
        """Return whether the pattern matches the full category, ignoring case."""
        return self.category is None or bool(re.fullmatch(self.category, category, re.IGNORECASE))

    def match_names(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which names match; only the beginning of long names is searched."""
        search = re.compile(self.name or "", re.IGNORECASE if self.ignore_case else 0).search
        return np.array([search(name, 0, _MAX_SEARCHED) is not None for name in names], bool)


@dataclass(frozen=True, slots=True)
class AddedRule(Rule):
    """A rule added by the user, with patterns for RE2."""

    def category_matches(self, category: str) -> bool:
        if self.category is None:
            return True
        return bool(match_pattern(rf"\A(?:{self.category})\z", [category], ignore_case=True)[0])

    def match_names(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        beginnings = [name[:_MAX_SEARCHED] for name in names]
        return match_pattern(self.name or "", beginnings, ignore_case=self.ignore_case)


#: Name patterns of communication on devices, with notes.
_COMMUNICATION: Final = {
    r"(?<![a-z])(sym)?(nccl|rccl|hccl|xccl|eccl|cncl|mccl|bkcl|flagcx)": (
        "NCCL (ncclKernel_*, ncclDevKernel_*, ncclSymDevKernel_*), RCCL, HCCL and similar"
    ),
    r"(?<![a-z])(one)?ccl(::|_)": "oneCCL",
    r"(?<![a-z])msccl(pp)?(kernel|(?![a-z]))": "MSCCL, MSCCL++",
    r"(?<![a-z])(nv|roc|i)shmem": "NVSHMEM, rocSHMEM, ISHMEM",
    r"(?<![a-z])(deep_?ep(::|\d)|(dpsk::ep|hybrid_ep)::)": "DeepEP, even if names are mangled",
    r"(?<![a-z])(inter|intra)node(_ll)?::|(?<![a-z])notify_dispatch": (
        "DeepEP's kernels without their namespace"
    ),
    r"a2a_?(prepare_?)?(dispatch|combine)|(?<![a-z])ep_?(dispatch|combine)"
    r"|fused_?moe_?comm(?!on)": "experts' exchanges of TensorRT-LLM, PPLX and MORI",
    r"cross_device_(reduce|gather|scatter)|reduce_scatter_cross_device": (
        "vLLM, SGLang, AITER: custom all-reduces"
    ),
    r"multimem_|symmetric_memory(::|\d)": "PyTorch symmetric memory",
    r"userbuffers": "Transformer Engine's user buffers",
    r"(one|two)_?shot_?all_?reduce": "one-shot and two-shot all-reduces",
    r"quick_?reduce::|lamport": "quick and Lamport all-reduces",
    r"all[-_]?reduce|all[-_]?gather|reduce[-_]?scatter|all[-_]?to[-_]?all"
    r"|^collective[-_](permute|broadcast)"
    r"|^(send|recv)(-done)?(\.\d+)?$": "collectives by name (TensorRT-LLM, FlashInfer, XLA …)",
    r"^(hcom_|collective_subgraph|rdma_?send|reduce_inline)": "Ascend, MTIA",
    r"(?<![a-z])ctran": "Meta's CTran",
}

#: Groups of threads that work together inside a kernel.
_KERNEL_SCOPES: Final = (
    r"(block|warp|wave|wavefront|cta|cluster|thread|lane|quad|(sub|work)_?group|shfl|simd)"
)
#: Kinds of device work by name pattern, with notes. They precede `_COMMUNICATION`.
_DEVICE_WORK_NAMES: Final = (
    ("memory", r"^\[?(hip|cuda|cu|musa|aclrt|cnrt)? ?mem(cpy|set)", "copies and fills"),
    ("memory", r"^(memory_)?copy_?(host|device)_?to_?(host|device)", "ROCm's copies"),
    ("memory", r"^fill_?buffer", "ROCm's fills"),
    ("memory", r"^copy[cg]pu2[cg]pu", "MXNet's copies"),
    ("memory", r"^__amd_rocclr_(copy|fill)", "ROCm's copy and fill kernels"),
    ("memory", r"^zeCommandListAppendMemory(Copy|Fill)", "Level Zero's copies and fills (XPU)"),
    ("memory", r"^(copy([-_](start|done))?|(in|out)feed)(\.\d+)?$", "XLA's copies"),
    ("memory", r"^(async-copy|hcMemcpy\w+|[hd]2[hd](_(rect|image))?|fill)$", "rocprof and HIP"),
    ("memory", r"^dma(_(request|copy|transfer|read|write)\w*)?\b", "DMA"),
    ("sync", r"^((stream|event|context|device) (sync|wait)|barrier$)", "waits"),
    ("sync", r"^(event|notify|capture)_(wait|record)(_sqe)?$", "waits, records (MTIA, Ascend)"),
    ("sync", r"^__amd_rocclr_streamOps", "ROCm's waits and flags on a stream"),
    ("compute", r"^triton_([a-z0-9]+_)?fused_", "Inductor's kernels, named after their operators"),
    ("compute", rf"{_KERNEL_SCOPES}_?all_?(reduce|gather)", "reductions inside a kernel"),
)

_BUILT_IN: Final[tuple[Rule, ...]] = (
    # Host collectives count as communication only on ranks without device work.
    Rule(
        "communication",
        r"cpu_op|operator|user_annotation",
        HOST_COLLECTIVES,
        "collectives on the host, in ranks without device work",
        ignore_case=False,
        level=_HOST_FIGURES,
    ),
    # Rules that depend only on the category.
    Rule("sync", _SYNCS, None, "waits and event records on a stream"),
    Rule("annotation", _ANNOTATIONS, None, "ranges that the program names"),
    Rule("annotation", "nvtx.*", None, "ranges of NVTX, in exports of Nsight Systems"),
    Rule("memory", _COPIES, None, "copies and fills"),
    Rule("communication", "collective_comm", None, "collectives"),
    # Device work, by name.
    Rule("memory", "mtia_ccp_events", r"^dma", "MTIA's copies"),
    *(Rule(kind, _DEVICE_WORK, name, note) for kind, name, note in _DEVICE_WORK_NAMES),
    *(Rule("communication", _DEVICE_WORK, *rule) for rule in _COMMUNICATION.items()),
    Rule("compute", _DEVICE_WORK, None, "all other device work"),
    # BytePS: worker stages by type of work, and server requests.
    Rule("sync", _BYTEPS, r"\.COORDINATE_\w+$", "a GPU hands its turn to the root GPU"),
    Rule("memory", _BYTEPS, r"\.(COPY(D2H|H2D)|CPU_COPY_\w+)$", "between device and host"),
    Rule("cpu", _BYTEPS, r"\.(PCIE_REDUCE|(DE)?COMPRESS)$", "sums and codecs on the host"),
    Rule("communication", _BYTEPS, _BYTEPS_TRANSFERS, "to servers, and between a worker's GPUs"),
    Rule("other", _BYTEPS, r"\.[A-Z][A-Z0-9_]+$", "unknown stages, of forks", ignore_case=False),
    Rule("annotation", _BYTEPS, r"^Comm\.", "a gradient's whole synchronization"),
    Rule("communication", "byteps-server", r"^(push|pull)-\d+$", "requests of workers"),
    Rule("sync", "waiting", None, "waiting for the root GPU, or for other workers' pushes"),
    # mpitrace counts these calls as communication; with device work, they count as host work.
    Rule("communication", MPI_CATEGORY, None, "without device work", level=_WITHOUT_DEVICES),
    Rule("cpu", MPI_CATEGORY, None, "calls of MPI in ranks with device work"),
    # Horovod: the phases of a tensor.
    Rule("communication", "horovod", _HOROVOD_PHASES, "phases of Horovod"),
    Rule("memory", "horovod", r"^MEMCPY_", "to and from Horovod's fusion buffer"),
    Rule("sync", "horovod", r"^(WAIT_FOR_\w+|QUEUE)$", "waits of Horovod"),
    Rule("annotation", "horovod", r"^[A-Z]+$", "a tensor's operation, around its phases"),
    # The host.
    Rule(
        "annotation",
        r"cpu_op|operator",
        r"^(nccl|rccl|hccl|xccl|ucc|gloo|mpi):",
        "ranges that PyTorch puts around collectives",
        ignore_case=False,
    ),
    Rule(
        "cpu",
        r"cpu_op|operator|python_function|cpu_instant_event|overhead|(.+_|cuda|hip)?(runtime|driver|api)",
        None,
        "operators, Python, runtime and driver calls",
    ),
    Rule("other", "memory_snapshot", None, "the recorded history of a memory snapshot"),
    Rule("other", None, None, "everything else"),
)

_added_rules: list[Rule] = []
#: Version numbers of sets of added rules, in the order of first use.
_versions: dict[tuple[Rule, ...], int] = {(): 0}


def version() -> int:
    """Return the version of the current rules; 0 stands for the built-in rules."""
    return _versions.setdefault(tuple(_added_rules), len(_versions))


@check_arguments
def add(
    kind: str,
    pattern: str,
    *,
    category: str | None = None,
    ignore_case: bool = False,
    note: str = "added",
) -> None:
    """Add a rule that takes precedence over all others.

    Kinds in loaded trace sets are recomputed on the next access, but tracks do not change.

    Parameters
    ----------
    kind : str
        One of ``compute, communication, memory, sync, cpu, annotation, other``.
    pattern : str
        Regular expression to search for in the first 10,000 characters of the event name.
    category : str, optional
        Regular expression that must match the full category, ignoring case. By default the rule
        applies to device work (kernels and similar events) or, if `kind` is ``cpu``, ``annotation``
        or ``other``, to every category.
    ignore_case : bool, default False
        Ignore the case of the name.
    note : str, optional
        Shown in `rules`.

    Examples
    --------
    >>> import hta_widgets as hw
    >>> hw.taxonomy.add("communication", r"^my_ring_exchange")
    """
    if kind not in KINDS:
        raise TraceError(f"unknown kind {kind!r}", remedy=f"The kinds are {', '.join(KINDS)}.")
    for text in (pattern, category or ""):
        require_pattern(text, repr(text))
    if category is None and kind in {"compute", "communication", "memory", "sync"}:
        category = _DEVICE_WORK
    _added_rules.insert(0, AddedRule(kind, category, pattern, note, ignore_case))


def reset() -> None:
    """Remove all added rules."""
    _added_rules.clear()


def added_rules() -> tuple[Rule, ...]:
    """Return the added rules, to be passed to `use_rules` in another process."""
    return tuple(_added_rules)


def use_rules(rules: tuple[Rule, ...]) -> None:
    """Replace the added rules by those from another process."""
    _added_rules[:] = rules


_BY_LEVEL: Final = tuple(
    tuple(rule for rule in _BUILT_IN if rule.level <= level) for level in range(_HOST_FIGURES + 1)
)


def _rules(level: int) -> tuple[Rule, ...]:
    return (*_added_rules, *_BY_LEVEL[level])


def _rules_frame() -> pd.DataFrame:
    """Return all rules in order of precedence; the column ``added`` marks rules from `add`."""
    rules = _rules(_HOST_FIGURES)
    columns = ["kind", "category", "name", "ignore_case", "note"]
    frame = pd.DataFrame(rules)[columns].fillna("")
    return frame.assign(added=[rule in _added_rules for rule in rules])


def __getattr__(name: str) -> Any:
    # Each access returns a new frame. Changing it does not affect the rules.
    if name == "rules":
        return _rules_frame()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_device_category(category: str) -> bool:
    """Return whether rows with this category and a stream belong to a device."""
    return _DEVICE_CATEGORY.fullmatch(category) is not None


def is_device_work(category: str) -> bool:
    """Return whether rows with this category are computation or communication on a device."""
    return _DEVICE_WORK_CATEGORY.fullmatch(category) is not None


def is_known_category(category: str) -> bool:
    """Return whether a built-in rule mentions this category."""
    return any(rule.category and rule.category_matches(category) for rule in _BUILT_IN)


def is_graph_launch(name: str) -> bool:
    """Return whether a call launches a graph, for example ``cudaGraphLaunch``."""
    return _GRAPH_LAUNCH.search(name) is not None


def is_stream_work(category: str) -> bool:
    """Return whether rows with this category run in order on a device stream."""
    return _STREAM_WORK.fullmatch(category) is not None


@check_arguments
def kind_of(category: str, name: str) -> str:
    """Return the kind of an event on a rank with device work.

    Examples
    --------
    >>> kind_of("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)")
    'communication'
    >>> kind_of("cpu_op", "aten::add_")
    'cpu'
    """
    return _kind_by_name(version(), category, name)


@lru_cache(maxsize=1 << 16)
def _kind_by_name(_rules_version: int, category: str, name: str) -> str:
    return KINDS[int(_codes_of_names(category, [name], _WITH_DEVICES)[0])]


#: Kind codes by (rules, category, level) and name, shared by the ranks of a job.
_code_cache: dict[tuple[tuple[Rule, ...], str, int], dict[str, int]] = {}
_MAX_CACHED_CODES = 1 << 18
#: Number of characters of a name to search; kernel names have up to 5,000.
_MAX_SEARCHED = 10_000


def _codes_of_names(category: str, names: Sequence[str], level: int) -> npt.NDArray[np.uint8]:
    codes = _code_cache.setdefault((tuple(_added_rules), category, level), {})
    new = [name for name in names if name not in codes]
    if len(codes) + len(new) > _MAX_CACHED_CODES:
        return _decide_codes(category, names, level)
    codes.update(zip(new, _decide_codes(category, new, level).tolist(), strict=True))
    return np.array([codes[name] for name in names], np.uint8)


def _decide_codes(category: str, names: Sequence[str], level: int) -> npt.NDArray[np.uint8]:
    """Return the kind code of each name, from the first matching rule."""
    codes = np.full(len(names), KINDS.index("other"), dtype=np.uint8)
    undecided = np.arange(len(names))
    for rule in _rules(level):
        if not rule.category_matches(category):
            continue
        is_match = rule.match_names([names[position] for position in undecided.tolist()])
        codes[undecided[is_match]] = KINDS.index(rule.kind)
        undecided = undecided[~is_match]
        if rule.name is None:
            break
    return codes


def kind_codes(
    category: npt.NDArray[Any],
    name: npt.NDArray[Any],
    categories: Sequence[str],
    names: Sequence[str],
    *,
    of_devices: bool = False,
) -> npt.NDArray[np.uint8]:
    """Return the kind code of every event, which is an index into `KINDS`.

    `category` and `name` are codes into `categories` and `names`. With `of_devices`, host
    collectives are not communication; see `_HOST_FIGURES`.
    """
    if not len(category):
        return np.empty(0, dtype=np.uint8)
    on_device = np.array([is_device_category(text) for text in categories], dtype=bool)
    has_device = bool(on_device.any() and on_device[category].any())
    level = _WITHOUT_DEVICES if of_devices else _HOST_FIGURES
    if has_device:
        level = _WITH_DEVICES
    codes = [_code_without_name(version(), text, level) for text in categories]
    by_category = np.array(codes, dtype=np.uint8)
    result: npt.NDArray[np.uint8] = by_category[category]
    undecided_rows = np.flatnonzero(result == _UNDECIDED)
    category_of_rows = category[undecided_rows]
    for code in np.flatnonzero(by_category == _UNDECIDED).tolist():
        rows = undecided_rows[category_of_rows == code]
        used_names = np.flatnonzero(np.bincount(name[rows])).tolist()
        by_name = np.zeros(len(names), dtype=np.uint8)
        by_name[used_names] = _codes_of_names(
            categories[code], [names[name_code] for name_code in used_names], level
        )
        result[rows] = by_name[name[rows]]
    return result


#: Code of a category whose kind depends on the name as well.
_UNDECIDED: Final = 255


@lru_cache(maxsize=1 << 12)
def _code_without_name(_rules_version: int, category: str, level: int) -> int:
    """Return the kind code if it depends only on the category, else `_UNDECIDED`."""
    for rule in _rules(level):
        if rule.category_matches(category):
            return _UNDECIDED if rule.name is not None else KINDS.index(rule.kind)
    return KINDS.index("other")


def __dir__() -> list[str]:
    return __all__
