"""Nsight Systems exports, written by ``nsys export --type sqlite``."""

from hta_widgets.formats.device_formats import device_format
from hta_widgets.readers.formats import SQLITE_MAGIC

NSIGHT = device_format(
    __name__, "nsight", "Nsight Systems", "Nsight Systems exports",
    sniff=f"{__name__}.reader:is_export", read="reader:read_export",
    companions="reader:reports_of", words=(SQLITE_MAGIC,), memory_factor=6.5,
)  # fmt: skip
