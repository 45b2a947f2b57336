"""HTA's settings: args that become columns, defaults, settings files, and the logger.

Only the list of args in `ParserConfig` has an effect. HTA's other settings select how a file is
read, or drop events. They are stored but ignored.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pandas as pd

#: The logger of HTA. This package adds no handlers to it.
logger = logging.getLogger("hta")

#: The folder that HTA reads by default.
DEFAULT_TRACE_DIR = "/tmp/trace"  # noqa: S108 - HTA's default

#: Launches that a stream queues before further launches block (measured, not documented).
CUDA_MAX_LAUNCH_QUEUE_PER_STREAM = 1024


class YamlVersion(NamedTuple):
    """Version of HTA's list of args. This package has a single list."""

    major: int
    minor: int
    patch: int

    def get_version_str(self) -> str:
        """Return the version as text, for example ``1.0.0``."""
        return ".".join(map(str, self))

    @staticmethod
    def from_string(version_str: str) -> YamlVersion:
        """Parse a version such as ``1.0.0``."""
        major, minor, patch = map(int, version_str.split("."))
        return YamlVersion(major, minor, patch)


DEFAULT_PARSE_VERSION = YamlVersion(1, 0, 0)

#: Type of the values of an arg.
ValueType = Enum("ValueType", "Int Float String Object")


class AttributeSpec(NamedTuple):
    """An arg that becomes the column `name`. Its key in ``args`` in the file is `raw_name`."""

    name: str
    raw_name: str
    value_type: ValueType
    default_value: Any
    min_supported_version: YamlVersion = DEFAULT_PARSE_VERSION


_INT, _COUNT = (ValueType.Int, -1), (ValueType.Int, 0)
_FLOAT, _TEXT = (ValueType.Float, 0.0), (ValueType.String, "")
_LIST, _SHAPE = (ValueType.Object, "[]"), (ValueType.Object, "-1")

#: HTA's key: column, key in the file, type, default
_ARGS = {
    "index::ev_idx": ("ev_idx", "Ev Idx", _INT),
    "index::external_id": ("external_id", "External id", _INT),
    "index::python_id": ("python_id", "Python id", _INT),
    "index::python_parent_id": ("python_parent_id", "Python parent id", _INT),
    "cpu_op::concrete_inputs": ("concrete_inputs", "Concrete Inputs", _LIST),
    "cpu_op::fwd_thread": ("fwd_thread_id", "Fwd thread id", _INT),
    "cpu_op::input_dims": ("input_dims", "Input Dims", _SHAPE),
    "cpu_op::input_type": ("input_type", "Input type", _SHAPE),
    "cpu_op::input_strides": ("input_strides", "Input Strides", _SHAPE),
    "cpu_op::sequence_number": ("sequence", "Sequence number", _INT),
    "cpu_op::kernel_backend": ("kernel_backend", "kernel_backend", _TEXT),
    "cpu_op::kernel_hash": ("kernel_hash", "kernel_hash", _TEXT),
    "correlation::cbid": ("cbid", "cbid", _INT),
    "correlation::cpu_gpu": ("correlation", "correlation", _INT),
    "sm::blocks": ("blocks_per_sm", "blocks per SM", _LIST),
    "sm::occupancy": ("est_occupancy", "est. achieved occupancy %", _INT),
    "sm::warps": ("warps_per_sm", "warps per SM", _FLOAT),
    "data::bytes": ("bytes", "bytes", _INT),
    "data::bandwidth": ("memory_bw_gbps", "memory bandwidth (GB/s)", _FLOAT),
    "cuda::context": ("context", "context", _INT),
    "cuda::device": ("device", "device", _INT),
    "cuda::stream": ("stream", "stream", _INT),
    "kernel::queued": ("queued", "queued", _INT),
    "kernel::shared_memory": ("shared_memory", "shared memory", _INT),
    "threads::block": ("block", "block", _LIST),
    "threads::grid": ("grid", "grid", _LIST),
    "threads::registers": ("registers_per_thread", "registers per thread", _INT),
    "cuda_sync::stream": ("wait_on_stream", "wait_on_stream", _INT),
    "cuda_sync::event": (
        "wait_on_cuda_event_record_corr_id",
        "wait_on_cuda_event_record_corr_id",
        _INT,
    ),
    "info::finished": ("finished", "finished", _TEXT),
    "info::labels": ("labels", "labels", _TEXT),
    "info::name": ("name", "name", _INT),
    "info::op_count": ("op_count", "Op count", _INT),
    "info::sort_index": ("sort_index", "sort_index", _INT),
    "nccl::collective_name": ("collective_name", "Collective name", _TEXT),
    "nccl::in_msg_nelems": ("in_msg_nelems", "In msg nelems", _COUNT),
    "nccl::out_msg_nelems": ("out_msg_nelems", "Out msg nelems", _COUNT),
    "nccl::in_msg_size": ("in_msg_size", "In msg size", _COUNT),
    "nccl::out_msg_size": ("out_msg_size", "Out msg size", _COUNT),
    "nccl::group_size": ("group_size", "Group size", _COUNT),
    "nccl::dtype": ("msg_dtype", "dtype", _TEXT),
    "nccl::in_split_size": ("in_split_size", "In split size", _LIST),
    "nccl::out_split_size": ("out_split_size", "Out split size", _LIST),
    "nccl::input_tensors_start": ("input_tensors_start", "Input Tensors start", _LIST),
    "nccl::output_tensors_start": ("output_tensors_start", "Output Tensors start", _LIST),
    "nccl::process_group_name": ("process_group_name", "Process Group Name", _TEXT),
    "nccl::process_group_desc": ("process_group_desc", "Process Group Description", _TEXT),
    "nccl::process_group_ranks": ("process_group_ranks", "Process Group Ranks", _LIST),
    "nccl::rank": ("process_rank", "Rank", _INT),
    "nccl::seq": ("seq_num", "Seq", _INT),
    "inference::batch_size": ("batch_size", "batchSize", _INT),
    "inference::batch_id": ("batch_id", "batchId", _TEXT),
    "inference::pre_grad_nodes": ("pre_grad_nodes", "pre_grad_nodes", _LIST),
}

#: All args that HTA names, keyed as in HTA.
AVAILABLE_ARGS: dict[str, AttributeSpec] = {
    key: AttributeSpec(column, raw, *value) for key, (column, raw, value) in _ARGS.items()
}


def _args(group: str, names: str) -> list[AttributeSpec]:
    return [AVAILABLE_ARGS[f"{group}::{name}"] for name in names.split()]


class ParserBackend(StrEnum):
    """The JSON readers of HTA. Ignored."""

    JSON = "json"
    IJSON = "ijson"
    IJSON_BATCHED = "ijson_batched"
    IJSON_BATCH_AND_COMPRESS = "ijson_batch_and_compress"


class TraceType(StrEnum):
    """The trace types of HTA. Ignored."""

    Training = "training"
    TrainingWoProfilerstepAnnot = "training_wo_profilerstep_annot"
    Inference = "inference"


class ParserConfig:
    """Selects the args that become columns of frames in a `Trace`. Default: `ARGS_DEFAULT`.

    `parse_all_args` selects all of `AVAILABLE_ARGS`. `settings` become attributes. Only
    `selected_arg_keys` has an effect, namely on the columns.

    Examples
    --------
    >>> config = ParserConfig.get_default_cfg()
    >>> config.add_args([AVAILABLE_ARGS["sm::occupancy"]])
    >>> config.get_args()[-1].raw_name
    'est. achieved occupancy %'
    """

    ARGS_MINIMUM: ClassVar = _args("cuda", "stream") + _args("correlation", "cpu_gpu")
    ARGS_BANDWIDTH: ClassVar = _args("data", "bytes bandwidth")
    ARGS_SYNC: ClassVar = _args("cuda_sync", "stream event")
    ARGS_INPUT_SHAPE: ClassVar = _args("cpu_op", "input_dims input_type input_strides")
    ARGS_TRITON_KERNELS: ClassVar = _args("cpu_op", "kernel_backend kernel_hash")
    ARGS_INFO: ClassVar = _args("info", "labels name sort_index")
    ARGS_COMMUNICATION: ClassVar = _args(
        "nccl",
        "collective_name in_msg_nelems out_msg_nelems dtype group_size rank in_split_size"
        " out_split_size",
    )
    ARGS_COMPLETE: ClassVar = [
        spec for key, spec in AVAILABLE_ARGS.items() if not key.startswith("info::")
    ]
    ARGS_DEFAULT: ClassVar = [
        *ARGS_MINIMUM,
        *ARGS_BANDWIDTH,
        *ARGS_SYNC,
        *ARGS_INPUT_SHAPE,
        *_args("index", "external_id python_id python_parent_id"),
        *ARGS_COMMUNICATION,
    ]

    _default: ClassVar[ParserConfig]

    def __init__(
        self,
        args: list[AttributeSpec] | None = None,
        user_provide_trace_type: TraceType | None = None,
        version: YamlVersion = DEFAULT_PARSE_VERSION,
        parse_all_args: bool = False,
        **settings: object,
    ) -> None:
        self.args: list[AttributeSpec] = list(self.ARGS_DEFAULT if args is None else args)
        self.user_provide_trace_type = user_provide_trace_type
        self.version = version
        self.parse_all_args = parse_all_args
        self.parser_backend: ParserBackend | None = None
        self.trace_memory = False
        self.skip_event_types: set[str] = {"python_function"}
        self.drop_gpu_user_annotation = True
        self.min_required_cols = ["ts", "dur", "name", "cat", "pid", "tid"]
        self.selected_arg_keys: list[str] | None = None
        self.max_event_duration_us = 7 * 24 * 3600 * 1_000_000
        for name, value in settings.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return (
            f"ParserConfig(args={[spec.name for spec in self.get_args()]},"
            f" parse_all_args={self.parse_all_args}, parser_backend={self.parser_backend},"
            f" version={self.version.get_version_str()})"
        )

    def get_args(self) -> list[AttributeSpec]:
        """Return the args that become columns."""
        if self.parse_all_args:
            return list(AVAILABLE_ARGS.values())
        if self.selected_arg_keys is None:
            return self.args
        return [spec for spec in self.args if spec.name in self.selected_arg_keys]

    def set_args(self, args: list[AttributeSpec]) -> None:
        """Replace the args."""
        self.args = list(args)

    def add_args(self, args: Iterable[AttributeSpec]) -> None:
        """Add args whose columns are not in the list yet."""
        names = {spec.name for spec in self.args}
        self.args += [spec for spec in args if spec.name not in names]

    def set_parse_all_args(self, parse_all_args: bool) -> ParserConfig:
        """Select all of `AVAILABLE_ARGS`."""
        self.parse_all_args = parse_all_args
        return self

    def set_args_selector(self, selected_arg_keys: list[str] | None = None) -> ParserConfig:
        """Select only the args with these column names."""
        self.selected_arg_keys = selected_arg_keys
        return self

    @classmethod
    def enable_communication_args(
        cls, cfg: ParserConfig | None = None, version: YamlVersion = DEFAULT_PARSE_VERSION
    ) -> ParserConfig:
        """Add the args of collectives to `cfg`, by default to the default configuration."""
        config = cls._default if cfg is None else cfg
        config.add_args(cls.ARGS_COMMUNICATION)
        return config

    @classmethod
    def get_minimum_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        """Return a copy of `ARGS_MINIMUM`."""
        return list(cls.ARGS_MINIMUM)

    @classmethod
    def get_default_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        """Return a copy of `ARGS_DEFAULT`."""
        return list(cls.ARGS_DEFAULT)

    @classmethod
    def get_info_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        """Return a copy of `ARGS_INFO`."""
        return list(cls.ARGS_INFO)

    @classmethod
    def get_all_available_args(cls) -> dict[str, AttributeSpec]:
        """Return `AVAILABLE_ARGS`."""
        return AVAILABLE_ARGS

    @classmethod
    def show_available_args(cls) -> None:
        """Print `AVAILABLE_ARGS`."""
        for key, spec in AVAILABLE_ARGS.items():
            print(f"{key}: {spec.raw_name!r} becomes {spec.name}")

    @classmethod
    def transform_arg_name(cls, arg: str) -> str:
        """Return the column for a key in ``args``.

        Examples
        --------
        >>> ParserConfig.transform_arg_name("memory bandwidth (GB/s)")
        'memory_bandwidth'
        """
        name = re.sub(r"\([^)]*\)", "", arg).lower()
        name = re.sub(r"[ \-/.%_]+", "_", name).strip("_")
        return "arg_name" if name == "name" else name

    @classmethod
    def make_attribute_spec(
        cls,
        raw_name: str,
        value: object,
        min_supported_version: YamlVersion = DEFAULT_PARSE_VERSION,
    ) -> AttributeSpec:
        """Return the column for an arg, with the type of `value`."""
        kinds = {int: _COUNT, float: _FLOAT, str: _TEXT, object: (ValueType.Object, None)}
        kind = next(kind for type_, kind in kinds.items() if isinstance(value, type_))
        name = cls.transform_arg_name(raw_name)
        return AttributeSpec(name, raw_name, *kind, min_supported_version)

    @classmethod
    def infer_attribute_specs(
        cls, args: pd.Series[Any], reference_specs: dict[str, AttributeSpec] | None = None
    ) -> dict[str, AttributeSpec]:
        """Return a column for each key in event args, from `reference_specs` if possible."""
        spec_of = {spec.raw_name: spec for spec in (reference_specs or {}).values()}
        spec_of.pop("name", None)
        specs: dict[str, AttributeSpec] = {}
        for arg in args:
            for key, value in (arg if isinstance(arg, dict) else {}).items():
                specs.setdefault(key, spec_of.get(key) or cls.make_attribute_spec(key, value))
        return specs

    def without_effect(self) -> list[str]:
        """Return the changed settings that would drop events in HTA and are ignored here."""
        plain = ParserConfig()
        names = ("skip_event_types", "max_event_duration_us", "drop_gpu_user_annotation")
        return [name for name in names if getattr(self, name) != getattr(plain, name)]

    def get_fingerprint_key(self) -> tuple[tuple[str, ...], bool]:
        """Return a hashable key that identifies the columns."""
        return tuple(sorted(spec.name for spec in self.get_args())), self.parse_all_args

    def clone(self) -> ParserConfig:
        """Return a copy."""
        return copy.deepcopy(self)

    @classmethod
    def get_default_cfg(cls) -> ParserConfig:
        """Return a copy of the default configuration."""
        return cls._default.clone()

    @classmethod
    def get_versioned_cfg(cls, version: YamlVersion) -> ParserConfig:
        """Return a new configuration, identical across versions."""
        return cls(version=version)

    @classmethod
    def set_default_cfg(cls, cfg: ParserConfig) -> None:
        """Set the default configuration."""
        cls._default = cfg.clone()

    @staticmethod
    def set_global_parser_config_version(version: YamlVersion) -> None:
        """Reset the default configuration."""
        ParserConfig.set_default_cfg(ParserConfig(version=version))

    def set_parser_backend(self, parser_backend: ParserBackend | None) -> None:
        """Set an ignored attribute."""
        self.parser_backend = parser_backend

    def set_trace_memory(self, trace_memory: bool) -> None:
        """Set an ignored attribute."""
        self.trace_memory = trace_memory

    def set_drop_gpu_user_annotation(self, should_drop: bool) -> None:
        """Set an ignored attribute."""
        self.drop_gpu_user_annotation = should_drop

    def set_skip_event_types(self, skip_event_types: set[str] | None = None) -> ParserConfig:
        """Set an ignored attribute."""
        self.skip_event_types = set() if skip_event_types is None else skip_event_types
        return self

    def set_min_required_cols(self, cols: list[str]) -> None:
        """Set an ignored attribute."""
        self.min_required_cols = cols

    def get_min_required_cols(self) -> list[str]:
        """Return the attribute set by `set_min_required_cols`, which is ignored."""
        return self.min_required_cols


ParserConfig.set_default_cfg(ParserConfig())


class HtaConfig:
    """Settings from JSON files for users' own code: the default paths, then `config_file_path`."""

    def __init__(
        self, config_file_path: str | None = None, load_default_paths: bool | None = True
    ) -> None:
        self.config_file_paths = HtaConfig.get_default_paths() if load_default_paths else []
        if config_file_path:
            self.config_file_paths.append(config_file_path)
        self.config: dict[str, Any] = {}
        for path in self.get_config_file_paths():
            self.config.update(json.loads(Path(path).read_text("utf-8")))

    @staticmethod
    def get_default_paths() -> list[str]:
        """Return the default paths."""
        name = "trace_analyzer.json"
        return [str(Path.home() / ".hta" / name), str(Path.cwd() / name)]

    def get_config_file_paths(self) -> list[str]:
        """Return the existing paths."""
        return [path for path in self.config_file_paths if Path(path).is_file()]

    def get_config(self, dot_path: str | None = None, default_value: object = None) -> Any:
        """Return the setting at a path such as ``"a.b.c"``, or all settings."""
        if dot_path is None:
            return self.config
        return get_value_from_dict(self.config, dot_path, default_value)

    def show(self) -> None:
        """Print the settings."""
        print(json.dumps(self.config, indent=4, sort_keys=True))


def get_value_from_dict(d: object, key: str, default: object = None) -> Any:
    """Return the value at a path of keys such as ``"a.b.c"``."""
    for part in key.split("."):
        if not isinstance(d, dict) or part not in d:
            return default
        d = d[part]
    return d


def normalize_path(path: str) -> str:
    """Return a path with ``~`` and a leading ``./`` resolved."""
    resolved = Path(path).expanduser()
    return str(Path.cwd() / resolved) if path.startswith(".") else str(resolved)


@dataclass
class OperationOutcome:
    """Success, or failure with the reason."""

    success: bool
    reason: str


def is_valid_directory(path_to_directory: str, must_be_writable: bool = False) -> OperationOutcome:
    """Check that a folder exists, is readable and, if requested, writable."""
    path = Path(path_to_directory)
    reasons = {
        "the folder must be a non-empty string": not path_to_directory,
        f"{path} does not exist": not path.exists(),
        f"{path} is not a directory": not path.is_dir(),
        f"{path} is not readable": not os.access(path, os.R_OK),
        f"{path} is not writable": must_be_writable and not os.access(path, os.W_OK),
    }
    reason = next((reason for reason, fails in reasons.items() if fails), "")
    return OperationOutcome(not reason, reason)
