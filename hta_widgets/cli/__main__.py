"""``python -m hta_widgets.cli``."""

import sys

from hta_widgets.cli import main

sys.exit(main())
