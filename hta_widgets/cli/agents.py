"""The commands ``mcp`` and ``skill``."""

from __future__ import annotations

import argparse

from hta_widgets.answers.server import install_skill, serve, skill_text
from hta_widgets.cli import say
from hta_widgets.errors import TraceError
from hta_widgets.files import expand_home


def mcp(options: argparse.Namespace) -> None:
    """Serve tools for language models."""
    roots = [expand_home(root) for root in options.roots]
    for root in roots:
        if not root.is_dir():
            raise TraceError("is not a folder", path=root, remedy="Give a folder of traces.")
    serve(roots)


def skill(options: argparse.Namespace) -> None:
    """Print or install the instructions for language models."""
    if options.folder is None:
        print(skill_text(), end="")
    else:
        say(install_skill(str(expand_home(options.folder))))
