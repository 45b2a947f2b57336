"""What every saved page is made of: frame, code, footer, and the file itself."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.export.blocks import Block
from hta_widgets.export.blocks import packed
from hta_widgets.files import written_whole
from hta_widgets.live.tile_engine import TileEngine

__all__ = [
    "ascii_json",
    "code_blocks",
    "footer_text",
    "host_script",
    "page_parts",
    "page_target",
    "source_files",
    "version_text",
    "write_page",
]

_STATIC = Path(__file__).parent.parent / "static"

#: Nothing may be loaded from anywhere, whatever the page's data says.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)

_STYLE = """
:root { color-scheme: light dark; --bg: #ffffff; --ink: #12171e; --ink2: #4b5563; --rule: #d9dde3 }
@media (prefers-color-scheme: dark) {
  :root { --bg: #14181f; --ink: #eef1f5; --ink2: #b8c0cb; --rule: #323a46 }
}
html, body { margin: 0; background: var(--bg); color: var(--ink) }
body { padding: 8px 12px; font: 12px/16px Inter, system-ui, sans-serif }
#hta-view { min-height: 320px }
footer { margin-top: 8px; color: var(--ink2); font-variant-numeric: tabular-nums }
footer summary { cursor: pointer }
footer table { border-collapse: collapse; margin: 4px 0 8px }
footer td { padding: 0 16px 0 0; border-bottom: 1px solid var(--rule) }
footer td + td { text-align: right }
"""


def page_target(
    path: str | os.PathLike[str], max_mb: float, *, least_mb: float, remedy: str
) -> Path:
    """Return where a page is to be written, where `max_mb` leaves room for its code."""
    if not max_mb >= least_mb:
        raise TraceError(f"max_mb must be at least {least_mb}, not {max_mb}", remedy=remedy)
    return Path(os.fspath(path)).expanduser()


def ascii_json(value: Any) -> bytes:
    """Return JSON without NaN, and ASCII only: names may hold what is no valid Unicode."""
    text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _finite(value: Any) -> Any:
    """Return JSON values with null for the numbers that JSON cannot write."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple) and value and not isinstance(value[0], str):
        return [_finite(one) for one in value]
    return value


def _built_text(name: str) -> str:
    """Return a built file of the front end."""
    path = _STATIC / name
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing: the front end of this checkout is not built. Run `make build`."
        )
    return path.read_text("utf-8")


def host_script() -> str:
    """Return the page's own script, which stands in it as it is."""
    script = _built_text("page.js").replace("</script", "<\\/script")
    if "<!--" in script:
        raise ValueError("page.js holds <!--, which a page would take for a comment")
    return script


def code_blocks(names: Iterable[str]) -> list[Block]:
    """Return built files of the front end as blocks of a page."""
    return [packed(name, _built_text(name).encode()) for name in names]


def version_text() -> str:
    """Return which version writes."""
    try:
        return version("hta-widgets")
    except PackageNotFoundError:
        return "of this checkout"


def source_files(*engines: TileEngine) -> list[tuple[str, int | None]]:
    """Return name and size of each file that the jobs were read from."""
    sizes: dict[str, int | None] = {}
    for trace in (trace for engine in engines for trace in engine.traces.values()):
        try:
            sizes[trace.path] = Path(trace.path).stat().st_size
        except OSError:
            sizes[trace.path] = None
    return [(Path(path).name, size) for path, size in sizes.items()]


def page_parts(title: str, footer: str, host: str, blocks: Iterable[Block]) -> list[str]:
    """Return the text of a page: words, blocks, and the script that unpacks them."""
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        "<noscript>This page draws traces with JavaScript, which is switched off here. "
        "Nothing is loaded from a network.</noscript>\n"
        '<main id="hta-view">Unpacking…</main>\n'
        f"{footer}\n"
    )
    parts = [head]
    # Scripts of an unknown type are plain text to a browser, and base64 holds nothing else.
    for block in blocks:
        parts += [
            f'<script type="application/x-hta-block" id="hta-{block.name}">',
            block.text,
            "</script>\n",
        ]
    return [*parts, f'<script type="module">{host}</script>\n</body>\n</html>\n']


def footer_text(
    saved_at: datetime,
    files: Sequence[tuple[str, int | None]],
    sizes: Sequence[tuple[str, int]],
    embedded: str,
) -> str:
    """Return the line below the view, which unfolds into files and parts with their sizes."""
    known = [size for _, size in files if size is not None]
    count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    whole = f" ({_size_text(sum(known))})" if known else ""
    said = (
        f"Saved {saved_at:%Y-%m-%d %H:%M} UTC from {count}{whole} by hta_widgets {version_text()}. "
        f"{embedded}"
    )
    rows = [(name, "missing" if size is None else _size_text(size)) for name, size in files]
    inside = [(f"in this page: {name}", _size_text(size)) for name, size in sizes if size]
    cells = "".join(
        f"<tr><td>{_text(name)}</td><td>{_text(size)}</td></tr>" for name, size in (*rows, *inside)
    )
    details = f"<summary>{_text(said)}</summary><table>{cells}</table>"
    return f"<footer><details>{details}</details></footer>"


def _text(value: str) -> str:
    return escape(value.encode("utf-8", "replace").decode("utf-8"))


def _size_text(size: int) -> str:
    if size >= 1e6:
        return f"{size / 1e6:.1f} MB"
    return f"{size / 1e3:.1f} kB" if size >= 1e3 else f"{size} B"


def write_page(target: Path, parts: list[str], max_mb: float) -> None:
    """Write the file at once: whoever opens the path sees a whole page or the one before.

    It warns of a page that is larger than asked for.
    """

    def refused(cause: OSError) -> TraceError:
        return TraceError(
            f"cannot be written ({cause.strerror})",
            path=str(target),
            remedy="Is the folder there, and may you write to it?",
        )

    with written_whole(target, refused) as file:
        file.writelines(map(str.encode, parts))
    written = target.stat().st_size
    if written > max_mb * 1e6:
        warnings.warn(
            f"{target} takes {written / 1e6:.1f} MB, more than max_mb={max_mb}: "
            "a page holds at least an overview of every rank",
            stacklevel=3,
        )
