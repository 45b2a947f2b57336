"""``python -m hta_widgets.host [--view VIEW] PATH…``: what editors start, see docs/protocol.md."""

from __future__ import annotations

import argparse
import contextlib

from hta_widgets.host.opening import VIEWS
from hta_widgets.host.stdio import serve


def main() -> None:
    """Serve one view on standard input and output."""
    parser = argparse.ArgumentParser(prog="python -m hta_widgets.host")
    parser.add_argument("--view", choices=VIEWS, default="dashboard")
    parser.add_argument("paths", metavar="PATH", nargs="+")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        serve(given.paths, given.view)


if __name__ == "__main__":
    main()
