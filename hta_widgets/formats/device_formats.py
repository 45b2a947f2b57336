"""Parts shared by the formats of device profilers and of PyTorch's dumps."""

from hta_widgets.readers.formats import (
    FileReading,
    Format,
    FormatAnalyses,
    FormatComparison,
    FormatViews,
)

_SOURCES = {"columns": "hta_widgets.formats.event_rows:ColumnRecords"}
#: Formats of device profilers. Their ranks can be compared with each other.
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
    """Return a format with functions in modules of `package`, written ``"module:function"``.

    `sniff` is a full reference, so that it can name a module that imports quickly.
    """
    read, companions, finish = (
        f"{package}.{function}" if function else "" for function in (read, companions, finish)
    )
    reading = FileReading(
        sniff=sniff, read=read, companions=companions, finish=finish, words=words,
        memory_factor=memory_factor, takes_steps=takes_steps, shortens_paths=True,
        sources=_SOURCES,
    )  # fmt: skip
    others = tuple(other for other in _NAMES if other != name)
    comparison = FormatComparison(compared_with=others)
    return Format(name=name, label=label, plural=plural, reading=reading, comparison=comparison)


def dump_format(
    package: str,
    name: str,
    label: str,
    plural: str,
    *,
    sniff: str,
    read: str,
    profile: str,
    words: tuple[bytes, ...],
    memory_factor: float,
    functions: tuple[str, ...],
    comparison: FormatComparison | None = None,
) -> Format:
    """Return a format of dumps. Panels and headline are in module `frames` of `package`.

    Functions are written as in `device_format`.
    """
    reading = FileReading(
        sniff=sniff, read=f"{package}.{read}", profile=f"{package}.{profile}",
        words=words, memory_factor=memory_factor, sources=_SOURCES, is_dump=True,
        shortens_paths=True,
    )  # fmt: skip
    frames = f"{package}.frames"
    views = FormatViews(
        panels=f"{frames}:PANELS", shared_panels=("timeline",), headline=f"{frames}:headline",
        is_urgent=True,
    )  # fmt: skip
    return Format(
        name=name, label=label, plural=plural, reading=reading, views=views,
        analyses=FormatAnalyses(functions=functions), comparison=comparison or FormatComparison(),
    )  # fmt: skip
