"""Files of Ascend's profiler, torch_npu: ``trace_view.json`` and a database."""

import re
from pathlib import Path

from hta_widgets.formats.device_formats import device_format
from hta_widgets.readers.formats import SQLITE_MAGIC, FileStart

#: End of the name of each rank's folder.
RANK_FOLDER_END = "_ascend_pt"
TRACE_NAME = re.compile(r"trace_view\.json(\.gz)?")
_PROCESS = re.compile(rb'"(Ascend Hardware|CANN)"')


def is_trace_view(start: FileStart) -> bool:
    """Return whether a file is a time line of Ascend's profiler."""
    if TRACE_NAME.fullmatch(Path(start.path).name):
        return start.is_json
    is_list = start.is_json and start.without_bom[:1] == b"["
    return is_list and _PROCESS.search(start.text) is not None


TRACE_VIEW = device_format(
    __name__, "ascend", "Ascend", "traces of Ascend's profiler", sniff=f"{__name__}:is_trace_view",
    read="trace_view:read_trace_view", companions="trace_view:companions_of", takes_steps=False,
)  # fmt: skip
DATABASE = device_format(
    __name__, "ascend-db", "Ascend", "databases of Ascend's profiler",
    sniff=f"{__name__}.database:is_database", read="database:read_database",
    companions="trace_view:companions_of", words=(SQLITE_MAGIC,), memory_factor=6.5,
    takes_steps=False,
)  # fmt: skip
