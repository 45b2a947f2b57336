"""XPlane profiles of JAX and TensorFlow: ``HOST.xplane.pb``."""

import re

from hta_widgets.readers.formats import FileReading, FileStart, Format, FormatComparison

#: Field 1 of a message, and in it an optional field 1 (a number) and field 2 (a text).
_NAMED_PLANE = re.compile(
    rb"\x0a[\x80-\xff]*[\x00-\x7f](\x08[\x80-\xff]*[\x00-\x7f])?\x12[\x00-\xff]"
    rb"(/host:|/device:|Task Environment)",
    re.DOTALL,
)


def is_profile(start: FileStart) -> bool:
    """Whether a file is a profile, by the name of its first plane."""
    if _NAMED_PLANE.match(start.text):
        return True
    return ".xplane.pb" in start.path and start.text.startswith(b"\x0a")


XPLANE = Format(
    name="xplane",
    label="XProf",
    plural="XPlane profiles",
    reading=FileReading(
        sniff=f"{__name__}:is_profile",
        read=f"{__name__}.reader:read_profile",
        sources={"columns": "hta_widgets.formats.event_rows:ColumnRecords"},
        finish=f"{__name__}.reader:note_captures",
        companions=f"{__name__}.reader:companions_of",
        memory_factor=6.0,
        takes_steps=True,
        shortens_paths=True,
    ),
    comparison=FormatComparison(compared_with=("kineto", "nsight", "ascend", "ascend-db")),
)
