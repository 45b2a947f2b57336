"""The nodes on which a job's ranks run, and the links between the devices of a node.

Traces name neither nodes nor links. Ranks with the same host name are on one node. Without host
names, a node is assumed to have as many consecutive ranks as a file lists devices, or else 8. The
devices in a node exchange data over the link in their row of `hw.devices`, or else over PCIe.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_widgets.analysis.cross_rank.comm_events import JobHeader
from hta_widgets.analysis.cross_rank.comm_groups import ProcessGroup
from hta_widgets.analysis.efficiency.devices import device_of_entry
from hta_widgets.trace.arrays import Ints

_USUAL_DEVICES = 8


def node_numbers(
    headers: Mapping[int, JobHeader], ranks: Collection[int], gpus_per_node: int | None = None
) -> tuple[dict[int, int], str]:
    """Return each rank's node, and where this is from: ``given``, ``file`` or ``assumed``.

    `headers` are keyed by loaded rank.
    """
    if gpus_per_node is not None:
        return {rank: rank // gpus_per_node for rank in ranks}, "given"
    hosts = {rank: headers[rank].host if rank in headers else "" for rank in sorted(ranks)}
    if hosts and all(hosts.values()):
        number = {host: at for at, host in enumerate(dict.fromkeys(hosts.values()))}
        return {rank: number[host] for rank, host in hosts.items()}, "file"
    size = max((header.devices for header in headers.values()), default=0) or _USUAL_DEVICES
    return {rank: rank // size for rank in ranks}, "assumed"


def count_nodes(groups: Sequence[ProcessGroup], node_of: Mapping[int, int]) -> Ints:
    """Return the number of nodes that each group spans; 0 if its ranks are unknown."""
    return np.array([len({node_of[rank] for rank in group.ranks}) for group in groups], np.int64)


@dataclass(frozen=True, slots=True)
class DeviceLink:
    """A device's link to the others in its node; an unknown ``gb_per_s`` is NaN."""

    device: str = ""
    link: str = ""
    gb_per_s: float = float("nan")
    source: str = ""
    certainty: str = ""


def device_link(header: JobHeader) -> DeviceLink:
    """Return the link of the first device listed in a rank's file."""
    device = device_of_entry(header.first_device)
    link, gb_per_s = device.link
    if not gb_per_s > 0:
        return DeviceLink()
    row = device.row
    return DeviceLink(row.device, link, gb_per_s, row.source, device.certainty)
