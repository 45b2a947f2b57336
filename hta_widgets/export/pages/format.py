"""Write a saved page, including its blocks, column encoding and HTML."""

from __future__ import annotations

import base64
import json
import os
import secrets
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.arguments import stack_level
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.files import require_not_input
from hta_widgets.facts import facts
from hta_widgets.files import package_version, target_path, write_atomically
from hta_widgets.live.job import TileEngine
from hta_widgets.panels.frames import without_nan
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import plural
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.trace.arrays import Array, Codes
from hta_widgets.trace.columns import StringPool
from hta_widgets.trace.memo import raise_if_cancelled
from hta_widgets.trace.names import short_name

_DELTA, _ZIGZAG, _FLOAT = (facts("flags")["column"][name] for name in ("delta", "zigzag", "float"))
_GZIP = 31
_LEVEL = 6

#: ``[offset, length, bytes per item, flags]``.
Spec = list[int]


@dataclass(slots=True, frozen=True)
class Block:
    """A named part of a page: a gzip stream encoded as base64."""

    name: str
    text: str

    @property
    def size_bytes(self) -> int:
        """The size of the block as embedded in the page."""
        return len(self.text) + len(self.name) + 60


def pack_block(name: str, content: bytes) -> Block:
    """Compress data into a block."""
    raise_if_cancelled()
    compressed = zlib.compress(content, _LEVEL, wbits=_GZIP)
    return Block(name, base64.b64encode(compressed).decode("ascii"))


class ColumnWriter:
    """Collects columns for one block.

    Numbers are stored as byte planes: the lowest byte of all numbers, then the next higher byte of
    all numbers, etc. Higher planes of small numbers are mostly zero, which compresses well.
    """

    def __init__(self) -> None:
        self.specs: dict[str, Spec] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def ints(self, name: str, values: npt.ArrayLike, *, delta: bool = False) -> None:
        """Add integers below 2^53. With `delta`, the differences between neighbors are stored."""
        numbers = np.asarray(values, np.int64)
        flags = 0
        if delta and len(numbers):
            numbers = np.diff(numbers, prepend=0)
            flags |= _DELTA
        if len(numbers) and numbers.min() < 0:
            numbers = (numbers << 1) ^ (numbers >> 63)
            flags |= _ZIGZAG
        largest = int(numbers.max()) if len(numbers) else 0
        if largest >= 1 << 53:
            raise TraceError(
                f"a page cannot store {name} exactly: values take {largest.bit_length()} bits",
                remedy="Save a subset without these events: traces.subset(...). The times"
                " in a page can span 104 days at most.",
            )
        used_bytes = max(1, (largest.bit_length() + 7) // 8)
        items = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)
        self._add(name, items[:, :used_bytes], flags)

    def floats(self, name: str, values: Array, dtype: str = "<f8") -> None:
        """Add floating-point numbers."""
        numbers = np.ascontiguousarray(values, dtype)
        planes = numbers.view(np.uint8).reshape(-1, numbers.itemsize)
        self._add(name, planes, _FLOAT)

    def _add(self, name: str, items: Codes, flags: int) -> None:
        raise_if_cancelled()
        length, width = items.shape
        self.specs[name] = [self._size, length, width, flags]
        self._parts.append(items.T.tobytes())
        self._size += length * width

    def block(self, name: str) -> Block:
        """Return a block with all columns."""
        return pack_block(name, b"".join(self._parts))


TABLES = ("events", "asyncs", "instants")


class NameTables:
    """Strings shared by all ranks of a page."""

    def __init__(self) -> None:
        self.names = StringPool()
        self.categories = StringPool()

    def document(self) -> dict[str, Any]:
        """Return the entries of the document that contain the strings."""
        shorts = StringPool()
        short_of = [shorts.add(short_name(name)) for name in self.names.values]
        return {
            "names": self.names.values,
            "shorts": shorts.values,
            "short_of": short_of,
            "categories": self.categories.values,
        }


class EventTypes:
    """The distinct combinations of name, category and kind among the events of a rank.

    Async events and instants are included. As in the kernel, types are sorted by the code of the
    name in the rank's string pool, then by kind.
    """

    def __init__(self, index: RankIndex, names: NameTables) -> None:
        tables = [index.rows(name) for name in TABLES]
        texts, categories = index.rank.table.names, index.rank.table.categories
        shape = (max(len(texts), 1), len(KINDS), max(len(categories), 1))
        keys = [
            np.ravel_multi_index((table.name, table.kind, table.category), shape)
            for table in tables
        ]
        distinct_keys, codes, counts = np.unique(
            np.concatenate(keys), return_inverse=True, return_counts=True
        )
        fields = np.stack(np.unravel_index(distinct_keys, shape), axis=1)
        self.listed = [
            [names.names.add(texts[name]), names.categories.add(categories[category]), kind]
            for name, kind, category in fields.tolist()
        ]
        self.counts: list[int] = counts.tolist()
        ends = np.cumsum([len(table.name) for table in tables])
        self.codes = dict(zip(TABLES, np.split(codes, ends[:-1]), strict=True))


_STATIC = Path(__file__).parents[2] / "static"

#: The page loads nothing from elsewhere and runs only its own script, even if its data contains
#: markup. Modules are unpacked into blobs.
_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' blob:; style-src 'nonce-{nonce}'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)

_STYLE = """
:root { color-scheme: light dark; --bg: #ffffff; --ink: #12171e; --ink2: #4b5563; --rule: #d9dde3 }
@media (prefers-color-scheme: dark) {
  :root { --bg: #14181f; --ink: #eef1f5; --ink2: #b8c0cb; --rule: #323a46 }
}
html, body { margin: 0; background: var(--bg); color: var(--ink) }
body { padding: 8px 12px; font: 12px/16px Inter, system-ui, sans-serif }
h1 { position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; contain: strict }
#hta-view { min-height: 320px }
@media screen {
  html:has(.hta-fills), html:has(.hta-fills) body { height: 100% }
  html:has(.hta-fills) body { display: flex; flex-direction: column; box-sizing: border-box }
  #hta-view:has(.hta-fills) { flex: 1 1 0 }
}
footer { margin-top: 8px; color: var(--ink2); font-variant-numeric: tabular-nums }
footer summary { cursor: pointer }
footer table { border-collapse: collapse; margin: 4px 0 8px }
footer td { padding: 0 16px 0 0; border-bottom: 1px solid var(--rule) }
footer td + td { text-align: right }
"""


@dataclass(slots=True)
class PageContent:
    """The content of a page except its code: the document, other blocks, and footer texts.

    The footer lists `sizes`. Its heading ends with `words`, which describe the content.
    """

    document: Mapping[str, Any]
    blocks: list[Block]
    sizes: list[tuple[str, int]]
    words: str
    #: Label of the document's size in the footer, or empty to omit it.
    document_word: str = ""


def save_page(
    path: str | os.PathLike[str],
    title: str,
    code: Sequence[str],
    engines: Sequence[TileEngine],
    make: Callable[[float, datetime], PageContent],
    *,
    max_mb: float,
    min_mb: float,
    remedy: str,
    more_code: Sequence[Block] = (),
) -> str:
    """Write a page. `make` is called with a size limit in bytes and the current time.

    The file is written under a temporary name, then renamed. Exceeding `max_mb` causes a warning.
    """
    if not max_mb >= min_mb:
        raise TraceError(f"max_mb must be at least {min_mb}, not {max_mb}", remedy=remedy)
    target = target_path(path)
    require_not_input((trace for engine in engines for trace in engine.traces.values()), target)
    host = _host_script()
    blocks = [*(pack_block(name, read_asset(name).encode()) for name in code), *more_code]
    code_bytes = len(host) + sum(block.size_bytes for block in blocks)
    saved_at = datetime.now(UTC)
    page = make(max_mb * 1e6 - code_bytes, saved_at)
    document = pack_block("document", ascii_json(page.document))
    sizes = list(page.sizes)
    if page.document_word:
        sizes.append((page.document_word, document.size_bytes))
    sizes.append(("code", code_bytes))
    footer = _footer_text(saved_at, source_files(*engines), sizes, page.words)
    parts = _page_parts(title, footer, host, [document, *blocks, *page.blocks])
    with write_atomically(target) as file:
        file.writelines(map(str.encode, parts))
    written = target.stat().st_size
    if written > max_mb * 1e6:
        warnings.warn(
            f"{target} takes {written / 1e6:.1f} MB, more than max_mb={max_mb}: "
            "a page contains at least an overview of every rank",
            stacklevel=stack_level(),
        )
    return str(target)


def ascii_json(value: object) -> bytes:
    """Return JSON without NaN. The text is ASCII, since names may contain invalid Unicode."""
    text = json.dumps(without_nan(value), separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def read_asset(name: str) -> str:
    """Return the text of a built front-end file."""
    path = _STATIC / name
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing: the front end of this checkout is not built. Run `make build`."
        )
    return path.read_text("utf-8")


def _host_script() -> str:
    script = read_asset("page.js").replace("</script", "<\\/script")
    if "<!--" in script:
        raise ValueError("page.js contains <!--, which would begin a comment in a page")
    return script


def version_text() -> str:
    """Return the version of this package."""
    return package_version("hta_widgets") or "of this checkout"


def source_files(*engines: TileEngine) -> list[tuple[str, int | None]]:
    """Return the name and size (None if unknown) of each file from which the jobs were read."""
    sizes: dict[str, int | None] = {}
    for trace in (trace for engine in engines for trace in engine.traces.values()):
        try:
            sizes[trace.path] = Path(trace.path).stat().st_size
        except OSError:
            sizes[trace.path] = None
    return [(Path(path).name, size) for path, size in sizes.items()]


def _page_parts(title: str, footer: str, host: str, blocks: Iterable[Block]) -> list[str]:
    """Return the text of a page in parts: head, blocks, and the script that unpacks the blocks."""
    nonce = secrets.token_urlsafe(16)
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY.format(nonce=nonce)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n"
        f'<style nonce="{nonce}">{_STYLE}</style>\n</head>\n<body>\n'
        "<noscript>This page draws traces with JavaScript, which is switched off here. "
        "Nothing is loaded from a network.</noscript>\n"
        f"<header><h1>{_text(title)}</h1></header>\n"
        '<main id="hta-view">Unpacking…</main>\n'
        f"{footer}\n"
    )
    parts = [head]
    # Browsers treat scripts of unknown types as plain text. Base64 needs no escaping.
    for block in blocks:
        parts += [
            f'<script type="application/x-hta-block" id="hta-{block.name}">',
            block.text,
            "</script>\n",
        ]
    return [*parts, f'<script type="module" nonce="{nonce}">{host}</script>\n</body>\n</html>\n']


def _footer_text(
    saved_at: datetime,
    files: Sequence[tuple[str, int | None]],
    sizes: Sequence[tuple[str, int]],
    embedded: str,
) -> str:
    """Return the footer: a line that unfolds into a table of files and page parts."""
    file_sizes = [size for _, size in files if size is not None]
    sizes_text = f" ({_size_text(sum(file_sizes))})" if file_sizes else ""
    text = (
        f"Saved {saved_at:%Y-%m-%d %H:%M} UTC from {plural(len(files), 'file')}{sizes_text} "
        f"by hta_widgets {version_text()}. {embedded}"
    )
    rows = [(name, "missing" if size is None else _size_text(size)) for name, size in files]
    inside = [(f"in this page: {name}", _size_text(size)) for name, size in sizes if size]
    cells = "".join(
        f"<tr><td>{_text(name)}</td><td>{_text(size)}</td></tr>" for name, size in (*rows, *inside)
    )
    details = f"<summary>{_text(text)}</summary><table>{cells}</table>"
    return f"<footer><details>{details}</details></footer>"


def _text(value: str) -> str:
    return escape(value.encode("utf-8", "replace").decode("utf-8"))


def _size_text(size: int) -> str:
    if size >= 1e6:
        return f"{size / 1e6:.1f} MB"
    return f"{size / 1e3:.1f} kB" if size >= 1e3 else f"{size} B"
