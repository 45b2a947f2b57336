"""The commands ``mcp`` and ``skill``."""

from __future__ import annotations

import argparse
from importlib.resources import files

from hta_widgets.cli import say
from hta_widgets.errors import TraceError
from hta_widgets.files import expand_home, write_text


def mcp(options: argparse.Namespace) -> None:
    """Serve tools for language models."""
    # Slow to import, and not needed by `skill`.
    from hta_widgets.answers.agents import AgentTools, make_server

    roots = [expand_home(root) for root in options.roots]
    for root in roots:
        if not root.is_dir():
            raise TraceError("is not a folder", path=root, remedy="Give a folder of traces.")
    make_server(AgentTools(roots)).run()  # until the client closes the connection


def skill(options: argparse.Namespace) -> None:
    """Print or install the instructions for language models."""
    text = files("hta_widgets.answers").joinpath("SKILL.md").read_text("utf-8")
    if options.folder is None:
        print(text, end="")
        return
    target = expand_home(options.folder) / "hta-widgets"
    target.mkdir(parents=True, exist_ok=True)
    say(write_text(target / "SKILL.md", text))
