"""From a command line to its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from hta_widgets.cli.arguments import parser
from hta_widgets.errors import TraceError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, or 2 after a line on standard error."""
    options = parser().parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except TraceError as error:
        return _failed(str(error))
    except BrokenPipeError:
        # The reader, for example `head`, has seen enough; what is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return 130
    return 0


def _failed(message: str) -> int:
    print(f"hta-widgets: {' '.join(message.split())}", file=sys.stderr)
    return 2
