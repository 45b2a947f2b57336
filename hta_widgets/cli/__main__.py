"""``python -m hta_widgets.cli``."""

import sys

from hta_widgets.cli.command import main

sys.exit(main())
