"""Exports of Nsight Systems: ``nsys export --type sqlite``."""

from hta_widgets.readers.formats import SQLITE_MAGIC, FileReading, Format, FormatComparison

NSIGHT = Format(
    name="nsight",
    label="Nsight Systems",
    plural="Nsight Systems exports",
    reading=FileReading(
        sniff=f"{__name__}.reader:is_export",
        words=(SQLITE_MAGIC,),
        read=f"{__name__}.reader:read_export",
        companions=f"{__name__}.reader:reports_of",
        memory_factor=6.5,
        takes_steps=True,
        shortens_paths=True,
    ),
    comparison=FormatComparison(compared_with=("kineto",)),
)
