"""Run the command line: ``python -m hta_widgets``."""

import os
import sys

# `python -m` puts the working directory first on the path, and would run a `pandas.py` in it.
_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
if sys.path[:1] == [os.getcwd()] and sys.path[0] != _PACKAGE_FOLDER:  # noqa: PTH109
    del sys.path[0]

from hta_widgets.cli import run  # noqa: E402

run()
