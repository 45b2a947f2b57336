"""Where the built front end lies."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).parent.parent / "static"


def asset(name: str) -> Path:
    """Return the path of a built file of the front end."""
    path = STATIC / name
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing: the front end of this checkout is not built. Run `make build`."
        )
    return path
