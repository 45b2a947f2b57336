"""XPlane profiles of JAX and TensorFlow: ``HOST.xplane.pb``."""

import re

from hta_widgets.formats.device_formats import device_format
from hta_widgets.readers.formats import FileStart

#: Field 1 of a message that contains an optional field 1 (a number) and field 2 (a string).
_NAMED_PLANE = re.compile(
    rb"\x0a[\x80-\xff]*[\x00-\x7f](\x08[\x80-\xff]*[\x00-\x7f])?\x12[\x00-\xff]"
    rb"(/host:|/device:|Task Environment)",
    re.DOTALL,
)


def is_profile(start: FileStart) -> bool:
    """Return whether a file is a profile, judging by the name of its first plane."""
    if _NAMED_PLANE.match(start.text):
        return True
    return ".xplane.pb" in start.path and start.text.startswith(b"\x0a")


XPLANE = device_format(
    __name__, "xplane", "XProf", "XPlane profiles", sniff=f"{__name__}:is_profile",
    read="reader:read_profile", companions="reader:companions_of",
    finish="reader:separate_captures", memory_factor=6.0,
)  # fmt: skip
