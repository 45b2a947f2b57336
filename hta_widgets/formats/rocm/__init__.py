"""Files of AMD's rocprofv3 (rocpd databases, JSON) and of the older rocmProfileData."""

from hta_widgets.formats.device_formats import device_format
from hta_widgets.readers.formats import SQLITE_MAGIC

ROCPD = device_format(
    __name__, "rocpd", "rocprofv3", "rocpd databases", sniff=f"{__name__}.rocpd:is_rocpd",
    read="rocpd:read_rocpd", companions="rocpd:companions_of", words=(SQLITE_MAGIC,),
    memory_factor=6.5,
)  # fmt: skip
ROCPROF_JSON = device_format(
    __name__, "rocprof-json", "rocprofv3", "rocprofv3 JSON files",
    sniff=f"{__name__}.rocprof_json:is_rocprof_json", read="rocprof_json:read_rocprof_json",
    words=(b'"rocprofiler-sdk-tool"',),
)  # fmt: skip
