"""Dumps of PyTorch's flight recorder."""

from hta_widgets.formats.device_formats import dump_format
from hta_widgets.readers.formats import FileStart, references


def is_dump(start: FileStart) -> bool:
    """Return whether a file is a dump, judging by its first keys."""
    text = start.without_bom
    keys = (b"pg_config", b"pg_status", b"profiling_name", b"comm_state", b"comm_lib_version")
    has_key = any(key in text for key in keys)
    if start.is_pickle:  # with thousands of ranks, `pg_config` fills the text before the entries
        return has_key
    has_states = b"entries" in text or b"pg_status" in text or b"seq_id" in text
    return has_key and has_states and text.startswith(b"{") and b"traceEvents" not in text


DUMPS = dump_format(
    __name__, "flight-recorder", "flight recorder", "flight recorder dumps",
    sniff=f"{__name__}:is_dump", read="dumps:read_dump", profile="dumps:FlightDump",
    words=(b"entries", b"pg_config", b"pg_status", b"profiling_name"), memory_factor=4.0,
    functions=references(f"{__name__}.states", "collective_hangs collective_states"),
)  # fmt: skip
