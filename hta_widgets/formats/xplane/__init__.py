"""XPlane profiles of JAX and TensorFlow: ``HOST.xplane.pb``."""

from hta_widgets.formats.device_formats import device_format

XPLANE = device_format(
    __name__, "xplane", "XProf", "XPlane profiles", sniff="messages:is_profile",
    read="reader:read_profile", companions="reader:companions_of",
    finish="reader:separate_captures", memory_factor=6.0,
)  # fmt: skip
