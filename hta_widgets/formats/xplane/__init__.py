"""XPlane profiles of JAX and TensorFlow: ``HOST.xplane.pb``."""

from hta_widgets.readers.formats import FileReading, Format, FormatComparison

XPLANE = Format(
    name="xplane",
    label="XProf",
    plural="XPlane profiles",
    reading=FileReading(
        sniff=f"{__name__}.reader:is_profile",
        read=f"{__name__}.reader:read_profile",
        sources={"columns": "hta_widgets.formats.event_rows:ColumnRecords"},
        companions=f"{__name__}.reader:companions_of",
        memory_factor=6.0,
        takes_steps=True,
    ),
    comparison=FormatComparison(compared_with=("kineto", "nsight", "ascend", "ascend-db")),
)
