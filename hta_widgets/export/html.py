"""A view as one file: it opens from a disk, without kernel, server or network."""

from __future__ import annotations

import json
import math
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.export.embed import Block, embed
from hta_widgets.export.embed.blocks import packed
from hta_widgets.tiles import TileEngine

__all__ = ["DashboardPart", "save_html"]

_STATIC = Path(__file__).parent.parent / "static"
_TIMELINE = ("timeline.js", "state.js", "timeline.css")
_DASHBOARD = ("dashboard.js", "state.js", "dashboard.css")
_LEAST_MB = 0.1
#: Beside code and events: the page's own words, names of a small job, blocks' frames.
_WORDS_BYTES = 4000

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


@dataclass(frozen=True)
class DashboardPart:
    """What a page of a dashboard holds beyond its timeline.

    Parameters
    ----------
    traits : mapping
        Of the dashboard's model, as JSON values: panels, figures, headline, and so on.
    bokehjs : str
        The module that carries BokehJS.
    """

    traits: Mapping[str, Any]
    bokehjs: str


def save_html(
    path: str | os.PathLike[str],
    engine: TileEngine,
    scene: dict[str, Any],
    state: dict[str, Any],
    *,
    max_mb: float = 25,
    dashboard: DashboardPart | None = None,
) -> str:
    """Write a timeline, or a dashboard, as one self-contained page.

    Parameters
    ----------
    path : path-like
        The file to write.
    engine : TileEngine
        Of the job.
    scene : dict
        What the timeline shows.
    state : dict
        What its views share: window, selection, search, and so on.
    max_mb : float, default 25
        How large the file may become, in units of 1 000 000 bytes. Everything is embedded if it
        fits. Else all events of as many ranks as fit, those of the selection first, then those
        that the others wait for, and an overview of what is left; the page says which. Arguments
        of events come last.
    dashboard : DashboardPart, optional
        Panels, charts and words to show beside the timeline.

    Returns
    -------
    str
        The path that was written.

    Raises
    ------
    TraceError
        If `max_mb` is no size, or the file cannot be written.
    """
    if not max_mb >= _LEAST_MB:
        raise TraceError(
            f"max_mb must be at least {_LEAST_MB}, not {max_mb}",
            remedy="A page without any event takes about as much, one of a dashboard 0.8.",
        )
    target = Path(os.fspath(path)).expanduser()
    host = _host_script()
    code = _code(dashboard)
    code_bytes = len(host) + sum(block.size_bytes for block in code)
    limit_bytes = max_mb * 1e6 - code_bytes - _WORDS_BYTES
    embedded = embed(engine, scene, state, limit_bytes)
    files = _files(engine)
    saved_at = datetime.now(UTC)
    document = {
        "version": 1,
        "scene": embedded.scene,
        "state": state,
        "saved": {
            "at": saved_at.isoformat(timespec="seconds"),
            "by": f"hta_widgets {_version()}",
            "files": [{"name": name, "bytes": size} for name, size in files],
            "embedded": embedded.sizes,
        },
        "origin_ns": None if engine.traces.origin_ns is None else str(engine.traces.origin_ns),
        "widget": "timeline" if dashboard is None else "dashboard",
        **embedded.document,
    }
    # ASCII only: names may hold what is no valid Unicode.
    text = json.dumps(_finite(document), separators=(",", ":"), allow_nan=False)
    blocks = [packed("document", text.encode("ascii")), *code, *embedded.blocks]
    sizes = [*embedded.sizes, ("names and lanes", blocks[0].size_bytes), ("code", code_bytes)]
    title = str(scene.get("title") or document["widget"])
    _write(
        target,
        _page(title, _footer(saved_at, files, sizes, embedded.scene), host, blocks),
    )
    written = target.stat().st_size
    if written > max_mb * 1e6:
        warnings.warn(
            f"{target} takes {written / 1e6:.1f} MB, more than max_mb={max_mb}: "
            "a page holds at least an overview of every rank",
            stacklevel=2,
        )
    return str(target)


def _finite(value: Any) -> Any:
    """Return JSON values with null for the numbers that JSON cannot write."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple) and value and not isinstance(value[0], str):
        return [_finite(one) for one in value]
    return value


def _code(dashboard: DashboardPart | None) -> list[Block]:
    """Return the modules that a page runs; figures of a dashboard are code as well."""
    names = _TIMELINE if dashboard is None else _DASHBOARD
    blocks = [packed(name, _built(name).encode()) for name in names]
    if dashboard is not None:
        traits = json.dumps(_finite(dict(dashboard.traits)), allow_nan=False)
        blocks += [
            packed("bokeh.js", dashboard.bokehjs.encode()),
            packed("dashboard", traits.encode("ascii")),
        ]
    return blocks


def _built(name: str) -> str:
    """Return a built file of the front end."""
    path = _STATIC / name
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing: the front end of this checkout is not built. Run `make build`."
        )
    return path.read_text("utf-8")


def _host_script() -> str:
    """Return the page's own script, which stands in it as it is."""
    script = _built("page.js").replace("</script", "<\\/script")
    if "<!--" in script:
        raise ValueError("page.js holds <!--, which a page would take for a comment")
    return script


def _version() -> str:
    try:
        return version("hta-widgets")
    except PackageNotFoundError:
        return "of this checkout"


def _files(engine: TileEngine) -> list[tuple[str, int | None]]:
    """Return name and size of each file that the job was read from."""
    sizes: dict[str, int | None] = {}
    for trace in engine.traces.values():
        try:
            sizes[trace.path] = Path(trace.path).stat().st_size
        except OSError:
            sizes[trace.path] = None
    return [(Path(path).name, size) for path, size in sizes.items()]


def _page(title: str, footer: str, host: str, blocks: Iterable[Block]) -> list[str]:
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


def _footer(
    saved_at: datetime,
    files: list[tuple[str, int | None]],
    sizes: list[tuple[str, int]],
    scene: dict[str, Any],
) -> str:
    known = [size for _, size in files if size is not None]
    count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    whole = f" ({_size_text(sum(known))})" if known else ""
    said = (
        f"Saved {saved_at:%Y-%m-%d %H:%M} UTC from {count}{whole} by hta_widgets {_version()}. "
        f"{scene['embedded']['text']}"
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


def _write(target: Path, parts: list[str]) -> None:
    """Write the file at once: whoever opens the path sees a whole page or the one before."""
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as cause:
        raise TraceError(
            f"cannot be written ({cause.strerror})",
            path=str(target),
            remedy="Is the folder there, and may you write to it?",
        ) from None
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(parts)
        # A temporary file is its maker's alone; a page has the rights of any new file.
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o666 & ~mask)
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
