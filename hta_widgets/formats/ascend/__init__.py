"""Files of Ascend's profiler, torch_npu: ``trace_view.json``, and its database."""

from hta_widgets.formats.device_formats import device_format
from hta_widgets.readers.formats import SQLITE_MAGIC

TRACE_VIEW = device_format(
    __name__, "ascend", "Ascend", "traces of Ascend's profiler", sniff="trace_view:is_trace_view",
    read="trace_view:read_trace_view", companions="trace_view:companions_of", takes_steps=False,
)  # fmt: skip
DATABASE = device_format(
    __name__, "ascend-db", "Ascend", "databases of Ascend's profiler", sniff="database:is_database",
    read="database:read_database", companions="trace_view:companions_of", words=(SQLITE_MAGIC,),
    memory_factor=6.5, takes_steps=False,
)  # fmt: skip
