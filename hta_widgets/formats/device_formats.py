"""The common parts of the formats of device profilers, whose ranks can be compared."""

from hta_widgets.readers.formats import FileReading, Format, FormatComparison

_NAMES = ("kineto", "nsight", "xplane", "ascend", "ascend-db", "rocpd", "rocprof-json")


def device_format(
    package: str,
    name: str,
    label: str,
    plural: str,
    *,
    sniff: str,
    read: str,
    companions: str = "",
    finish: str = "",
    words: tuple[bytes, ...] = (),
    memory_factor: float = 1.0,
    takes_steps: bool = True,
) -> Format:
    """Return a format whose functions are in modules of `package`, as ``"module:function"``."""
    sniff, read, companions, finish = (
        f"{package}.{function}" if function else ""
        for function in (sniff, read, companions, finish)
    )
    reading = FileReading(
        sniff=sniff, read=read, companions=companions, finish=finish, words=words,
        memory_factor=memory_factor, takes_steps=takes_steps, shortens_paths=True,
        sources={"columns": "hta_widgets.formats.event_rows:ColumnRecords"},
    )  # fmt: skip
    others = tuple(other for other in _NAMES if other != name)
    comparison = FormatComparison(compared_with=others)
    return Format(name=name, label=label, plural=plural, reading=reading, comparison=comparison)
