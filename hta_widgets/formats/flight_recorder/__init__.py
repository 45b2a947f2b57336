"""Dumps of PyTorch's flight recorder."""

from hta_widgets.formats.device_formats import dump_format
from hta_widgets.readers.formats import references

DUMPS = dump_format(
    __name__, "flight-recorder", "flight recorder", "dumps of the flight recorder",
    sniff="dumps:is_dump", read="dumps:read_dump", profile="dumps:FlightDump",
    words=(b"entries", b"pg_config", b"pg_status", b"profiling_name"), memory_factor=4.0,
    functions=references(f"{__name__}.states", "collective_hangs collective_states"),
)  # fmt: skip
