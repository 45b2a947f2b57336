"""The command ``hta-widgets view``."""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import webbrowser

from hta_widgets import options as settings
from hta_widgets.cli import say
from hta_widgets.errors import TraceError, redact_urls
from hta_widgets.host.opening import Downloads
from hta_widgets.host.session import Session
from hta_widgets.host.web import AllowedPaths, Site, listen, redirect_file


def view(options: argparse.Namespace) -> None:
    """Show traces in a browser, until Ctrl+C."""
    if options.compare is not None and len(options.paths) != 1:
        raise TraceError("--compare takes one PATH and one OTHER", remedy="Give a folder for each.")
    offered = AllowedPaths(options.paths, options.compare)
    listening = listen(options.port)
    downloads = Downloads()
    settings.export_dir = downloads.written
    hello = {"title": offered.title, "again": reopen_command(options), "request": offered.request}
    session = Session(offered.source, hello, offer=downloads.offer)
    site = Site(
        session,
        downloads,
        listening,
        title=offered.title,
        folder=offered.folder,
        idle_minutes=options.idle,
    )
    try:
        say(f"{offered.title}: open this address in a browser; it contains a secret")
        say(f"  {site.url}")
        is_over_ssh = bool(os.environ.get("SSH_CONNECTION"))
        if is_over_ssh:
            say("On the machine with the browser, first run")
            say(f"  ssh -L {site.port}:127.0.0.1:{site.port} {socket.gethostname()}")
        say("Press Ctrl+C to stop.")
        # Over SSH without a display, only a text browser in this terminal could open the page.
        if not options.no_browser and (not is_over_ssh or os.environ.get("DISPLAY")):
            webbrowser.open(redirect_file(site.url).as_uri())
        session.run()
    except KeyboardInterrupt:
        print()
    finally:
        site.end()


def reopen_command(options: argparse.Namespace) -> str:
    """Return the command that opens the same traces again."""
    words = ["hta-widgets", "view", *options.paths]
    if options.compare is not None:
        words += ["--compare", options.compare]
    if options.step_ranges is not None:
        words += ["--steps", options.step_ranges]
    return shlex.join(map(redact_urls, words))
