"""Peak rates of devices, and the device that each rank ran on.

`table` has a row per device and precision. Rates are for dense matrices, although data sheets also
print doubled rates for sparse ones. Rows of AMD devices are per die, as in traces.

A name alone does not identify a device: ROCm may write ``AMD Radeon Graphics`` or no name. Devices
are matched in this order: devices added by the user; by name and memory within 8 %; by name only;
by compute capability, units, warp size and memory. For example, an empty name with 192 GB of
memory, 304 units and compute capability 9.4 is an MI300X, ``matched_by="properties"``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import columns_of_rows, result_frame
from hta_widgets.analysis.scope import device_work_rows
from hta_widgets.arguments import check_arguments, match_pattern, require_pattern
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts
from hta_widgets.trace.arrays import Floats
from hta_widgets.trace.memo import iter_ranks
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

__all__ = ["add", "of", "peak", "reset", "table"]  # noqa: F822 - defined by `__getattr__`

Precision = Literal[
    "fp64", "fp64_matrix", "fp32", "fp32_matrix", "tf32", "fp16", "bf16", "fp8", "fp4", "int8"
]
#: Precisions for which peaks exist, in the order of `table`.
PRECISIONS: Final = get_args(Precision)
_SOURCE: Final = "vendor data sheet, as quoted"
_GIB: Final = 1 << 30
#: Relative tolerance for the memory size. Drivers reserve a part of the nominal size.
_MEMORY_TOLERANCE: Final = 0.08
#: A device with a smaller share of its row's units is a partition (MIG, CPX).
_WHOLE_DEVICE: Final = 0.9
_MAX_DIGITS: Final = 19  # integers of up to 18 digits fit in 64 bits
_NAN: Final = float("nan")

#: Note in frames about ranks without device work.
NO_DEVICE: Final = "no kernels and no copies on a device"

#: Peaks for one call of an analysis: a device name, or TFLOP/s by precision and ``memory_gb_s``.
Peaks = str | Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Device:
    """Peak rates of a device. Unknown rates are NaN; a `pattern` of None matches any name."""

    device: str
    pattern: str | None
    tflop_per_s: Mapping[str, float]
    memory_gb_s: float = _NAN
    memory_gib: Sequence[float] = ()
    units: int = -1
    warp_size: int = -1
    compute_capability: str = ""
    link: str = ""
    link_gb_s: float = _NAN
    pcie_gb_s: float = _NAN
    source: str = _SOURCE
    certainty: str = "certain"
    properties: Mapping[str, Any] = field(default_factory=dict)

    def has_memory(self, size_bytes: int) -> bool:
        """Return whether `size_bytes` is within 8 % of a nominal memory size."""
        sizes = [size * _GIB for size in self.memory_gib]
        return any(abs(size_bytes - size) <= _MEMORY_TOLERANCE * size for size in sizes)


_UNKNOWN: Final = Device("", None, {}, source="", certainty="uncertain")


@dataclass(frozen=True, slots=True)
class UsedDevice:
    """A rank's device: its properties from the file, and its row of the table.

    `device_id` is -1 for a rank without device work.
    """

    rank: int = -1
    device_id: int = -1
    name: str = ""
    units: int = -1
    memory_bytes: int = -1
    compute_capability: str = ""
    warp_size: int = -1
    matched_by: str = "none"
    row: Device = _UNKNOWN
    scaled: float = 1.0

    @property
    def certainty(self) -> str:
        """The row's certainty if the name matches a whole device, else ``uncertain``."""
        is_certain = self.matched_by in {"user", "name"} and self.scaled == 1
        return self.row.certainty if is_certain else "uncertain"

    def peaks(self, precisions: Iterable[str]) -> Floats:
        """Return the peak for each precision in TFLOP/s; NaN if unknown."""
        rates = self.row.tflop_per_s
        return np.array([rates.get(name, _NAN) for name in precisions], np.float64) * self.scaled

    @property
    def memory_gb_s(self) -> float:
        """Memory bandwidth in GB/s; NaN if unknown."""
        return self.row.memory_gb_s * self.scaled

    @property
    def link(self) -> tuple[str, float]:
        """Name and rate per direction of the link to other devices in the node, or else of PCIe."""
        row = self.row
        return (row.link, row.link_gb_s) if row.link_gb_s > 0 else ("PCIe", row.pcie_gb_s)

    @property
    def major(self) -> int:
        """Major version of the compute capability; -1 if unknown."""
        return int(self.compute_capability.partition(".")[0] or -1)

    @property
    def is_amd(self) -> bool:
        """Whether warps have the width used by AMD."""
        return self.warp_size == 64

    @property
    def columns(self) -> dict[str, str]:
        """Columns for frames that name the device and the source of its peaks."""
        return {
            "device": self.row.device,
            "peak_source": self.row.source,
            "peak_certainty": self.certainty if self.row.device else "",
        }


_added: list[Device] = []


@cache
def _built_in() -> tuple[Device, ...]:
    return tuple(Device(**row) for row in facts("devices"))


def _all_devices() -> tuple[Device, ...]:
    return (*_added, *_built_in())


_TABLE: Final = {
    "device": "str", "precision": "str", "tflop_per_s": "float64", "memory_gb_s": "float64",
    "memory_gib": "float64", "units": "int64", "compute_capability": "str", "pattern": "str",
    "link": "str", "link_gb_s": "float64", "pcie_gb_s": "float64", "source": "str",
    "certainty": "str",
}  # fmt: skip


def _table() -> pd.DataFrame:
    rows = [
        {name: getattr(row, name, None) for name in _TABLE}
        | {
            "precision": precision,
            "tflop_per_s": row.tflop_per_s[precision],
            "memory_gib": max(row.memory_gib, default=_NAN),
            "pattern": row.pattern or "",
        }
        for row in _all_devices()
        for precision in PRECISIONS
        if precision in row.tflop_per_s
    ]
    return pd.DataFrame(columns_of_rows(map(dict.values, rows), _TABLE))


def __getattr__(name: str) -> Any:
    # `table` is a new frame on each access, so that changes to it do not affect the devices.
    if name == "table":
        return _table()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


@check_arguments
def add(
    device: str,
    *,
    pattern: str | None = None,
    properties: Mapping[str, Any] | None = None,
    memory_gb_s: float | None = None,
    link: str = "",
    link_gb_s: float | None = None,
    source: str = "user",
    **tflop_per_s: float,
) -> None:
    """Add a device, which takes precedence over the built-in devices.

    Parameters
    ----------
    device : str
        Name of the device in frames.
    pattern : str, optional
        Regular expression that is searched for in the device name of a file. Default: matches only
        the name `device`.
    properties : mapping, optional
        Values that ``deviceProperties`` of a file must have, for example ``{"numSms": 152}``.
    memory_gb_s : float, optional
        Memory bandwidth in 10⁹ bytes per second.
    link, link_gb_s : str and float, optional
        Name of the link to other devices of a node, and its rate per direction in 10⁹ bytes per
        second.
    source : str, default "user"
        Source of the figures, which is shown with every share of a peak.
    **tflop_per_s : float
        Dense rates in 10¹² FLOP per second by precision: ``fp64, fp64_matrix, fp32, fp32_matrix,
        tf32, fp16, bf16, fp8, fp4, int8``.

    Examples
    --------
    >>> import hta_widgets as hw
    >>> hw.devices.add("MTIA", pattern="ARTEMIS", bf16=100, memory_gb_s=800)
    >>> hw.devices.peak("MTIA", "bf16")
    100.0
    >>> hw.devices.reset()
    """
    _validate_rates(tflop_per_s, memory_gb_s=memory_gb_s, link_gb_s=link_gb_s)
    pattern = f"^{re.escape(device)}$" if pattern is None and not properties else pattern
    require_pattern(pattern or "", f"pattern={pattern!r}")
    rates = {precision: float(rate) for precision, rate in tflop_per_s.items()}
    row = Device(
        device=device,
        pattern=pattern,
        tflop_per_s=rates,
        memory_gb_s=memory_gb_s or _NAN,
        source=source,
        link=link,
        link_gb_s=link_gb_s or _NAN,
        properties=properties or {},
    )
    _added.insert(0, row)


def reset() -> None:
    """Remove all added devices."""
    _added.clear()


@check_arguments
def peak(name: str, precision: str) -> float:
    """Return a device's dense peak from `table` in TFLOP/s; NaN if unknown.

    Examples
    --------
    >>> peak("H100 SXM", "bf16")
    989.0
    """
    rows = [row.tflop_per_s for row in _all_devices() if row.device == name]
    return float(next((rates[precision] for rates in rows if precision in rates), _NAN))


@check_arguments
def of(traces: TraceSet) -> pd.DataFrame:
    """Return the device of each rank and the row of `table` that it matches.

    Parameters
    ----------
    traces : TraceSet

    Returns
    -------
    DataFrame
        One row per rank with device work: ``rank, device_id`` (int64); ``name``, as in the file;
        ``device``, the matching row of `table`, or an empty string; ``matched_by``: ``user``,
        ``name`` (and memory), ``name only``, ``properties``, ``none``; ``units, memory_bytes``
        (int64, -1 if the file lacks them); ``memory_gb_s, link_gb_s, pcie_gb_s`` (float64), the
        memory bandwidth, and the rates per direction of links to other devices and to the host;
        ``scaled`` (float64), the share of the device that a partition has; ``source, certainty``.
        The note names devices without a row, and the call that adds one.
    """
    used = [used_device(trace) for trace in iter_ranks(traces.values())]
    schema = {
        "rank": "int64", "device_id": "int64", "name": "str", "device": "str", "matched_by": "str",
        "units": "int64", "memory_bytes": "int64", "memory_gb_s": "float64",
        "link_gb_s": "float64", "pcie_gb_s": "float64", "scaled": "float64", "source": "str",
        "certainty": "str",
    }  # fmt: skip
    of_row = {"device", "source", "link_gb_s", "pcie_gb_s"}
    rows = [
        [getattr(device.row if name in of_row else device, name) for name in schema]
        for device in used
        if device.device_id >= 0
    ]
    note = unknown_device_note(used)
    return result_frame(columns_of_rows(rows, schema), matched={"ranks": len(rows)}, note=note)


def unknown_device_note(devices: Sequence[UsedDevice]) -> str:
    """Return a sentence about ranks whose device is unknown; "" if all are known."""
    used = [device for device in devices if device.device_id >= 0]
    names = sorted({device.name for device in used if device.row is _UNKNOWN})
    if not used:
        return NO_DEVICE
    if not names:
        return ""
    if names == [""]:
        return 'the files do not name the device: name it with peaks=, for example "H100 SXM"'
    listed = ", ".join(repr(name) if name else "devices without a name" for name in names)
    pattern = re.escape(max(names))
    return (
        f"no peaks are known for {listed}: add them with "
        f'hw.devices.add("my device", pattern={pattern!r}, bf16=…, memory_gb_s=…)'
    )


def used_device(trace: Trace, user_devices: Sequence[Device] | None = None) -> UsedDevice:
    """Return the device that ran most of a rank's work.

    `user_devices` are devices added in another process, from `devices_of_user`.
    """
    rows = device_work_rows(trace)
    if not len(rows):
        return UsedDevice(trace.rank)
    busiest = np.bincount(trace.table.track[rows]).argmax()
    pid = trace.table.tracks[busiest].pid
    device_id = int(pid) if pid.isdecimal() and len(pid) < _MAX_DIGITS else 0
    entry = device_properties(trace, device_id)
    return replace(device_of_entry(entry, user_devices), rank=trace.rank, device_id=device_id)


def device_properties(trace: Trace, device_id: int) -> dict[str, Any]:
    """Return a device's entry in ``deviceProperties``, else the first entry, else an empty dict."""
    stated = trace.metadata.get("deviceProperties")
    stated = stated if isinstance(stated, list) else []
    entries = [entry for entry in stated if isinstance(entry, dict)]
    named = [entry for entry in entries if entry.get("id") == device_id]
    return next(iter(named or entries), {})


def whole_number(value: object) -> int:
    """Return a value from a file if it is an integer from 0 to 2^62 - 1, else -1."""
    return value if type(value) is int and 0 <= value < 1 << 62 else -1


def device_of_entry(
    entry: Mapping[str, Any], user_devices: Sequence[Device] | None = None
) -> UsedDevice:
    """Return the device described by an entry of ``deviceProperties``, with its row."""
    device = _stated_device(entry)
    for row in _added if user_devices is None else user_devices:
        is_named = row.pattern is None or match_pattern(row.pattern, [device.name])[0]
        if is_named and all(entry.get(key) == value for key, value in row.properties.items()):
            return replace(device, matched_by="user", row=row)
    rows = _built_in()
    if named := [row for row in rows if row.pattern and re.search(row.pattern, device.name)]:
        sized = [row for row in named if row.has_memory(device.memory_bytes)]
        # Several rows may match the same name, for example AMD Instinct MI250X/MI250.
        row = max(sized or named, key=lambda row: row.units == device.units)
        is_part = 0 < device.units < _WHOLE_DEVICE * row.units
        scaled = device.units / row.units if is_part else 1.0
        matched_by = "name" if sized else "name only"
        return replace(device, matched_by=matched_by, row=row, scaled=scaled)
    shape = (device.compute_capability, device.units, device.warp_size)
    for row in rows:
        is_same = shape == (row.compute_capability, row.units, row.warp_size)
        if is_same and row.has_memory(device.memory_bytes):
            return replace(device, matched_by="properties", row=row)
    return device


def _stated_device(entry: Mapping[str, Any]) -> UsedDevice:
    name = entry.get("name")
    major, minor, units, memory_bytes, warp_size = (
        whole_number(entry.get(key))
        for key in ("computeMajor", "computeMinor", "numSms", "totalGlobalMem", "warpSize")
    )
    return UsedDevice(
        name=name if isinstance(name, str) else "",
        units=units,
        memory_bytes=memory_bytes,
        compute_capability=f"{major}.{minor}" if major >= 0 else "",
        warp_size=warp_size,
    )


def devices_of_user(peaks: Peaks | None = None) -> tuple[Device, ...]:
    """Return the device given as ``peaks=``, or else the devices added by the user."""
    if peaks is None:
        return tuple(_added)
    if isinstance(peaks, str):
        for row in _all_devices():
            if row.device == peaks:
                return (replace(row, pattern=None, properties={}),)
        names = ", ".join(dict.fromkeys(row.device for row in _all_devices()))
        raise TraceError(f"no device is named {peaks!r}", remedy=f"The devices are {names}.")
    rates = {key: float(rate) for key, rate in peaks.items()}
    memory_gb_s = rates.pop("memory_gb_s", None)
    _validate_rates(rates, memory_gb_s=memory_gb_s)
    return (Device("given", None, rates, memory_gb_s or _NAN, source="given"),)


def _validate_rates(rates: Mapping[str, float], **bandwidths: float | None) -> None:
    unknown = sorted(set(rates) - set(PRECISIONS))
    if unknown:
        raise TraceError(
            f"{unknown[0]!r} is not a precision",
            remedy=f"The precisions are {', '.join(PRECISIONS)}.",
        )
    for name, rate in {**rates, **bandwidths}.items():
        if rate is not None and not rate > 0:
            unit = "GB/s" if name in bandwidths else "TFLOP/s"
            raise TraceError(f"the rate of {name} is {rate!r}", remedy=f"Give {unit} above 0.")
