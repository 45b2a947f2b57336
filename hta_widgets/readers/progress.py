"""Progress of loading, shown as a bar in a cell or terminal, or reported to a function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hta_widgets.text import plural, size

_BAR_DELAY_S = 0.5
REPORT_EVERY_S = 0.1

#: Function that is called with the bytes read so far and the total bytes of all files.
Progress = Callable[[int, int], object]


@contextmanager
def reporting_progress(
    total_bytes: int, files: int, *, progress: bool | Progress
) -> Iterator[Callable[[float], object]]:
    """Yield a function that takes the number of bytes just read and reports the progress.

    Unless `progress` is a callable, a bar is shown in notebooks and terminals if loading takes
    longer than half a second.
    """
    if callable(progress):
        done_bytes = 0

        def add(more_bytes: float) -> None:
            nonlocal done_bytes
            done_bytes = min(done_bytes + int(more_bytes), total_bytes)
            progress(done_bytes, total_bytes)

        add(0)
        yield add
        return
    title = f"Loading {plural(files, 'trace')}"
    if progress and in_notebook():
        with _notebook_bar(total_bytes, title) as add_bytes:
            yield add_bytes
    elif progress and _is_terminal(sys.stderr):
        from tqdm import tqdm  # imports asyncio

        with tqdm(
            total=total_bytes,
            unit="B",
            unit_scale=True,
            unit_divisor=1024,
            desc=title,
            delay=_BAR_DELAY_S,
            leave=False,
            file=sys.stderr,
        ) as bar:
            yield bar.update
    else:
        yield lambda _more_bytes: None


@contextmanager
def _notebook_bar(total_bytes: int, title: str) -> Iterator[Callable[[float], object]]:
    """Yield a function that adds bytes to a bar in the cell's output, then remove the bar.

    The bar is HTML. A widget would leave a view in the notebook, which shows an error after its
    model is closed.
    """
    from IPython.display import display  # only present in notebooks

    done_bytes = 0.0
    next_report_s = time.monotonic() + _BAR_DELAY_S
    handle: Any = None

    def add(more_bytes: float) -> None:
        nonlocal done_bytes, next_report_s, handle
        done_bytes += more_bytes
        if time.monotonic() < next_report_s:
            return
        next_report_s = time.monotonic() + REPORT_EVERY_S
        text = f"{title}: {size(done_bytes)} of {size(total_bytes)}"
        bar = f'<progress value="{done_bytes:.0f}" max="{total_bytes}"></progress> {text}'
        output = {"text/html": bar, "text/plain": text}
        if handle is None:
            handle = display(output, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            handle.update(output, raw=True)

    try:
        yield add
    finally:
        if handle is not None:
            handle.update({"text/html": "", "text/plain": ""}, raw=True)


def in_notebook() -> bool:
    """Return whether the code runs in a Jupyter kernel, without importing IPython."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


def _is_terminal(stream: Any) -> bool:
    with suppress(AttributeError, ValueError):
        return bool(stream.isatty())
    return False
