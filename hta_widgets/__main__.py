"""Run the command line: ``python -m hta_widgets``."""

import sys

from hta_widgets.cli import main

sys.exit(main())
