"""Files of Ascend's profiler, torch_npu: ``trace_view.json``, and its database."""

from hta_widgets.readers.formats import SQLITE_MAGIC, FileReading, Format, FormatComparison

TRACE_VIEW = Format(
    name="ascend",
    label="Ascend",
    plural="traces of Ascend's profiler",
    reading=FileReading(
        sniff=f"{__name__}.folder:is_trace_view",
        read=f"{__name__}.trace_view:read_trace_view",
        companions=f"{__name__}.folder:companions_of",
        shortens_paths=True,
    ),
    comparison=FormatComparison(compared_with=("kineto", "nsight", "ascend-db")),
)
DATABASE = Format(
    name="ascend-db",
    label="Ascend",
    plural="databases of Ascend's profiler",
    reading=FileReading(
        sniff=f"{__name__}.database:is_database",
        words=(SQLITE_MAGIC,),
        read=f"{__name__}.database:read_database",
        companions=f"{__name__}.folder:companions_of",
        memory_factor=6.5,
        shortens_paths=True,
    ),
    comparison=FormatComparison(compared_with=("kineto", "nsight", "ascend")),
)
