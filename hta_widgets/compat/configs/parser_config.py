"""Which args become columns of HTA's frames.

Of HTA's settings only the list of args has a meaning here. The others chose between ways of
reading a file; they are accepted and change nothing:
the parser backend, ``trace_memory``, ``skip_event_types`` (Python functions are always there),
``version``, ``convert_ts_to_integer`` (times are never rounded), ``max_event_duration_us``,
``drop_gpu_user_annotation``, ``min_required_cols``, ``user_provide_trace_type``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, ClassVar

import pandas as pd

from hta_widgets.compat.configs.default_values import (
    AttributeSpec,
    ValueType,
    YamlVersion,
)
from hta_widgets.compat.configs.event_args import AVAILABLE_ARGS, args_named

__all__ = [
    "AVAILABLE_ARGS",
    "DEFAULT_PARSE_VERSION",
    "AttributeSpec",
    "ParserBackend",
    "ParserConfig",
    "TraceType",
    "ValueType",
    "YamlVersion",
]

#: The version of HTA's list of args; there is one.
DEFAULT_PARSE_VERSION = YamlVersion(1, 0, 0)


class ParserBackend(StrEnum):
    """HTA's ways of reading a file; accepted, one way serves all here."""

    JSON = "json"
    IJSON = "ijson"
    IJSON_BATCHED = "ijson_batched"
    IJSON_BATCH_AND_COMPRESS = "ijson_batch_and_compress"


class TraceType(StrEnum):
    """HTA's types of traces; accepted, without meaning here."""

    Training = "training"
    TrainingWoProfilerstepAnnot = "training_wo_profilerstep_annot"
    Inference = "inference"


class ParserConfig:
    """Which args become columns of the frames of a `Trace`.

    Parameters
    ----------
    args : list of AttributeSpec, optional
        The args; `ARGS_DEFAULT` by default.
    parse_all_args : bool, default False
        Whether all args that HTA knows by name become columns. (HTA makes columns of unknown
        ones too.)
    **settings
        HTA's other settings; kept as attributes, without meaning here.

    Examples
    --------
    >>> config = ParserConfig.get_default_cfg()
    >>> config.add_args([AVAILABLE_ARGS["sm::occupancy"]])
    >>> config.get_args()[-1].raw_name
    'est. achieved occupancy %'
    """

    ARGS_MINIMUM: ClassVar = args_named("cuda::stream", "correlation::cpu_gpu")
    ARGS_BANDWIDTH: ClassVar = args_named("data::bytes", "data::bandwidth")
    ARGS_SYNC: ClassVar = args_named("cuda_sync::stream", "cuda_sync::event")
    ARGS_INPUT_SHAPE: ClassVar = args_named(
        "cpu_op::input_dims", "cpu_op::input_type", "cpu_op::input_strides"
    )
    ARGS_TRITON_KERNELS: ClassVar = args_named("cpu_op::kernel_backend", "cpu_op::kernel_hash")
    ARGS_INFO: ClassVar = args_named("info::labels", "info::name", "info::sort_index")
    ARGS_COMMUNICATION: ClassVar = args_named(
        "nccl::collective_name",
        "nccl::in_msg_nelems",
        "nccl::out_msg_nelems",
        "nccl::dtype",
        "nccl::group_size",
        "nccl::rank",
        "nccl::in_split_size",
        "nccl::out_split_size",
    )
    ARGS_COMPLETE: ClassVar = [
        spec for key, spec in AVAILABLE_ARGS.items() if not key.startswith("info::")
    ]
    ARGS_DEFAULT: ClassVar = [
        *ARGS_MINIMUM,
        *ARGS_BANDWIDTH,
        *ARGS_SYNC,
        *ARGS_INPUT_SHAPE,
        *args_named("index::external_id", "index::python_id", "index::python_parent_id"),
        *ARGS_COMMUNICATION,
    ]

    _default: ClassVar[ParserConfig]

    def __init__(
        self,
        args: list[AttributeSpec] | None = None,
        user_provide_trace_type: TraceType | None = None,
        version: YamlVersion = DEFAULT_PARSE_VERSION,
        parse_all_args: bool = False,
        **settings: Any,
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

    # --- args -------------------------------------------------------------------------------------

    def get_args(self) -> list[AttributeSpec]:
        """Return the args that become columns."""
        if self.parse_all_args:
            return list(AVAILABLE_ARGS.values())
        if self.selected_arg_keys is None:
            return self.args
        return [spec for spec in self.args if spec.name in self.selected_arg_keys]

    def set_args(self, args: list[AttributeSpec]) -> None:
        """Make columns of these args, and no others."""
        self.args = list(args)

    def add_args(self, args: Iterable[AttributeSpec]) -> None:
        """Make columns of these args too."""
        known = {spec.name for spec in self.args}
        self.args += [spec for spec in args if spec.name not in known]

    def set_parse_all_args(self, parse_all_args: bool) -> ParserConfig:
        """Make columns of all args that HTA knows by name."""
        self.parse_all_args = parse_all_args
        return self

    def set_args_selector(self, selected_arg_keys: list[str] | None = None) -> ParserConfig:
        """Make columns of the args of these names only."""
        self.selected_arg_keys = selected_arg_keys
        return self

    @classmethod
    def enable_communication_args(
        cls, cfg: ParserConfig | None = None, version: YamlVersion = DEFAULT_PARSE_VERSION
    ) -> ParserConfig:
        """Make columns of the args of collectives too, by default in all later traces."""
        del version
        config = cls._default if cfg is None else cfg
        config.add_args(cls.ARGS_COMMUNICATION)
        return config

    @classmethod
    def get_minimum_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        """Return a copy of `ARGS_MINIMUM`."""
        del version
        return list(cls.ARGS_MINIMUM)

    @classmethod
    def get_default_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        """Return a copy of `ARGS_DEFAULT`."""
        del version
        return list(cls.ARGS_DEFAULT)

    @classmethod
    def get_info_args(cls, version: YamlVersion = DEFAULT_PARSE_VERSION) -> list[AttributeSpec]:
        """Return a copy of `ARGS_INFO`."""
        del version
        return list(cls.ARGS_INFO)

    @classmethod
    def get_all_available_args(cls) -> dict[str, AttributeSpec]:
        """Return every arg that HTA knows, by its key."""
        return AVAILABLE_ARGS

    @classmethod
    def show_available_args(cls) -> None:
        """Print every arg that HTA knows."""
        for key, spec in AVAILABLE_ARGS.items():
            print(f"{key}: {spec.raw_name!r} becomes {spec.name}")  # noqa: T201 - what it is for

    @classmethod
    def transform_arg_name(cls, arg: str) -> str:
        """Return the column's name for a key of ``args``.

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
        """Return the column for an arg that has such a value."""
        kind: tuple[ValueType, Any] = (ValueType.Object, None)
        if isinstance(value, int):
            kind = ValueType.Int, 0
        elif isinstance(value, float):
            kind = ValueType.Float, 0.0
        elif isinstance(value, str):
            kind = ValueType.String, ""
        name = cls.transform_arg_name(raw_name)
        return AttributeSpec(name, raw_name, *kind, min_supported_version)

    @classmethod
    def infer_attribute_specs(
        cls, args: pd.Series[Any], reference_specs: dict[str, AttributeSpec] | None = None
    ) -> dict[str, AttributeSpec]:
        """Return the columns for the args of events, by key: those of `reference_specs`, or new."""
        known = {spec.raw_name: spec for spec in (reference_specs or {}).values()}
        known.pop("name", None)
        found: dict[str, AttributeSpec] = {}
        for each in args:
            for key, value in (each if isinstance(each, dict) else {}).items():
                found.setdefault(key, known.get(key) or cls.make_attribute_spec(key, value))
        return found

    def without_effect(self) -> list[str]:
        """Return the settings that would leave out events in HTA, and do not here."""
        plain = ParserConfig()
        names = ("skip_event_types", "max_event_duration_us", "drop_gpu_user_annotation")
        return [name for name in names if getattr(self, name) != getattr(plain, name)]

    def get_fingerprint_key(self) -> tuple[tuple[str, ...], bool]:
        """Return what decides on the columns, hashable."""
        return tuple(sorted(spec.name for spec in self.get_args())), self.parse_all_args

    # --- the one that later traces are read with --------------------------------------------------

    def clone(self) -> ParserConfig:
        """Return a copy."""
        return copy.deepcopy(self)

    @classmethod
    def get_default_cfg(cls) -> ParserConfig:
        """Return a copy of the configuration that is used where none is given."""
        return cls._default.clone()

    @classmethod
    def get_versioned_cfg(cls, version: YamlVersion) -> ParserConfig:
        """Return a new configuration; versions do not differ here."""
        return cls(version=version)

    @classmethod
    def set_default_cfg(cls, cfg: ParserConfig) -> None:
        """Use a configuration where none is given."""
        cls._default = cfg.clone()

    @staticmethod
    def set_global_parser_config_version(version: YamlVersion) -> None:
        """Use a new configuration where none is given."""
        ParserConfig.set_default_cfg(ParserConfig(version=version))

    # --- without meaning here ---------------------------------------------------------------------

    def set_parser_backend(self, parser_backend: ParserBackend | None) -> None:
        """Keep the setting; files are read in one way."""
        self.parser_backend = parser_backend

    def set_trace_memory(self, trace_memory: bool) -> None:
        """Keep the setting; memory is not traced."""
        self.trace_memory = trace_memory

    def set_drop_gpu_user_annotation(self, should_drop: bool) -> None:
        """Keep the setting; annotations stay, as in HTA."""
        self.drop_gpu_user_annotation = should_drop

    def set_skip_event_types(self, skip_event_types: set[str] | None = None) -> ParserConfig:
        """Keep the setting; nothing is skipped."""
        self.skip_event_types = set() if skip_event_types is None else skip_event_types
        return self

    def set_min_required_cols(self, cols: list[str]) -> None:
        """Keep the setting."""
        self.min_required_cols = cols

    def get_min_required_cols(self) -> list[str]:
        """Return the setting."""
        return self.min_required_cols


ParserConfig.set_default_cfg(ParserConfig())
