"""VS Code's workbench in a browser: code-server with our extension."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import FrameLocator, Locator, Page, expect

from .browser import wait_until
from .servers import served

REPO = Path(__file__).parents[2]
ENTRY = REPO / ".tools/code-server/node_modules/code-server/out/node/entry.js"
REPORTS = (
    "addEventListener('securitypolicyviolation', event => console.error("
    "'POLICY', document.querySelector('#view') ? 'ours' : 'other', event.violatedDirective,"
    " event.blockedURI))"
)


def built_extension(folder: Path) -> Path:
    """Build the extension into `folder` and return its VSIX file."""
    subprocess.run(["node", "js/vscode/build.mjs"], cwd=REPO, check=True)
    subprocess.run([sys.executable, "scripts/vsix.py", str(folder)], cwd=REPO, check=True)
    return next(folder.glob("*.vsix"))


@contextmanager
def code_server(root: Path, extension: Path, files: Path, **settings: object) -> Iterator[str]:
    """Run code-server in its own folders and yield the address of its workbench."""
    user = root / "data/User"
    user.mkdir(parents=True)
    quiet = {
        "hta.python": sys.executable,
        "workbench.startupEditor": "none",
        "security.workspace.trust.enabled": False,
        "telemetry.telemetryLevel": "off",
        "workbench.colorTheme": "Default Light Modern",
        "window.menuBarVisibility": "hidden",
    }
    (user / "settings.json").write_text(json.dumps(quiet | settings))
    own = ["--user-data-dir", str(root / "data"), "--extensions-dir", str(root / "extensions")]
    env = os.environ | {"PYTHONPATH": str(REPO), "XDG_CONFIG_HOME": str(root / "config")}
    command = ["node", str(ENTRY), *own]
    install = [*command, "--install-extension", str(extension)]
    subprocess.run(install, env=env, check=True, capture_output=True)
    command += ["--auth", "none", "--disable-telemetry", "--disable-update-check"]
    with served([*command, "--bind-addr", "127.0.0.1:{port}"], env, root / "log") as url:
        yield f"{url}/?folder={files}"


class Editor:
    """The workbench on a page, once its explorer lists a given name."""

    def __init__(self, page: Page, url: str, name: str) -> None:
        self.page = page
        self.wrong: list[str] = []
        page.on("console", lambda said: self.wrong.append(said.text))
        page.add_init_script(REPORTS)
        page.goto(url)
        expect(self.item(name)).to_be_visible(timeout=120_000)

    def item(self, name: str) -> Locator:
        return self.page.get_by_role("treeitem", name=name, exact=True)

    def view(self) -> FrameLocator:
        """Return the active editor's page, nested in two frames; hidden editors stay in the DOM."""
        outer = self.page.frame_locator("iframe.webview.ready:visible")
        return outer.frame_locator("iframe#active-frame")

    def open(self, name: str) -> FrameLocator:
        """Double-click a file. Before extensions are loaded, this would open the text editor."""
        for _ in range(20):
            self.item(name).dblclick()
            try:
                expect(self.page.locator("iframe.webview.ready:visible")).to_be_visible(
                    timeout=8_000
                )
            except AssertionError:
                self.page.keyboard.press("Control+F4")
            else:
                return self.view()
        raise AssertionError(f"no editor of ours for {name}")

    def command(self, name: str, entry: str) -> None:
        self.item(name).click(button="right")
        item = self.page.get_by_role("menuitem", name=entry)
        item.click()
        try:
            expect(item).to_be_hidden(timeout=2_000)
        except AssertionError:  # a menu ignores clicks for a moment after it opens
            item.click()

    def close_all(self) -> None:
        self.page.keyboard.press("Control+k")
        self.page.keyboard.press("Control+w")

    def save_to(self, path: Path) -> bytes:
        """Complete the save dialog and return the bytes written."""
        box = self.page.locator(".quick-input-widget input.input").first
        expect(box).to_be_visible(timeout=30_000)

        def is_written() -> bool:
            # The dialog fills in its own proposal once it has read the folder.
            if box.is_visible():
                if box.input_value() == str(path):
                    box.press("Enter")
                else:
                    box.fill(str(path))
            return path.exists() and path.stat().st_size > 0

        wait_until(self.page, is_written, f"{path} is written")
        return path.read_bytes()
