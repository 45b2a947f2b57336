"""The order in which people number files."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"(\d+)")


def natural_key(path: str) -> list[tuple[int, int, str]]:
    """Sort ``rank-10`` behind ``rank-9``."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in _DIGITS.split(path)]
