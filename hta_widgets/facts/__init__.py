"""Facts that Python and the page (``js/src``) share, each in a JSON file of this folder."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec


@cache
def facts(name: str) -> Any:
    """Return the content of ``NAME.json``. It is cached: callers must not modify it."""
    return msgspec.json.decode(files(__name__).joinpath(f"{name}.json").read_bytes())


def note_text(name: str, **values: object) -> str:
    """Return a sentence of ``notes.json``, the reason why a frame is empty or lacks ranks."""
    sentence: str = facts("notes")[name]
    return sentence.format(**values)
