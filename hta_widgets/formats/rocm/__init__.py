"""Files of AMD's rocprofv3 (rocpd databases, JSON) and of the older rocmProfileData."""

from hta_widgets.readers.formats import SQLITE_MAGIC, FileReading, Format, FormatComparison

_OTHERS = ("xplane", "ascend", "ascend-db")
ROCPD = Format(
    name="rocpd",
    label="rocprofv3",
    plural="rocpd databases",
    reading=FileReading(
        sniff=f"{__name__}.rocpd:is_rocpd",
        words=(SQLITE_MAGIC,),
        read=f"{__name__}.rocpd:read_rocpd",
        companions=f"{__name__}.rocpd:companions_of",
        memory_factor=6.5,
        takes_steps=True,
        shortens_paths=True,
    ),
    comparison=FormatComparison(compared_with=("kineto", "nsight", "rocprof-json", *_OTHERS)),
)
ROCPROF_JSON = Format(
    name="rocprof-json",
    label="rocprofv3",
    plural="JSON files of rocprofv3",
    reading=FileReading(
        sniff=f"{__name__}.rocprof_json:is_rocprof_json",
        words=(b'"rocprofiler-sdk-tool"',),
        read=f"{__name__}.rocprof_json:read_rocprof_json",
        takes_steps=True,
        shortens_paths=True,
    ),
    comparison=FormatComparison(compared_with=("kineto", "nsight", "rocpd", *_OTHERS)),
)
