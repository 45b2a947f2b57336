"""``python -m hta_widgets.cli``."""

import sys

from .command import main

sys.exit(main())
