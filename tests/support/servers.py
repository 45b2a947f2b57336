"""Local servers for tests."""

import functools
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_S = 120
LOCAL = "http://127.0.0.1"
#: Folder with the built JupyterLab extension.
SHARE = Path(__file__).resolve().parents[2] / "share/jupyter"


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab server, which also serves Notebook 7."""

    url: str
    folder: Path
    workspaces: Path
    token: str = "t"

    def api(self, path: str, method: str = "GET") -> Any:
        request = urllib.request.Request(
            f"{self.url}/api/{path}",
            method=method,
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            body = reply.read()
        return json.loads(body) if body else None

    def end_sessions(self, *, kept: bool = False) -> None:
        """End kernels, so that modules are imported afresh; with `kept`, only the shared ones."""
        for session in self.api("sessions"):
            if session["path"].startswith("kept-") == kept:
                self.api(f"sessions/{session['id']}", "DELETE")


def _settings(config: Path) -> None:
    """Keep JupyterLab from fetching news."""
    folder = config / "lab/user-settings/@jupyterlab/apputils-extension"
    folder.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (folder / "notification.jupyterlab-settings").write_text(json.dumps(quiet))


@contextmanager
def _running(
    command: list[str], env: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server with its output in `log`; stop it afterwards."""
    with log.open("w") as stream:
        server = subprocess.Popen(command, env=env, stdout=stream, stderr=stream, cwd=log.parent)
        try:
            yield server
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


@contextmanager
def jupyterlab(root: Path) -> Iterator[Lab]:
    """Run JupyterLab with all its folders below `root` and kernels of this interpreter."""
    folder = root / "notebooks"
    config = root / "config"
    runtime = root / "runtime"
    log = root / "jupyterlab.log"
    folder.mkdir(parents=True)
    _settings(config)
    env = os.environ | {
        "JUPYTER_CONFIG_DIR": str(config),
        "JUPYTER_DATA_DIR": str(root / "data"),
        "JUPYTER_PATH": str(SHARE),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTERLAB_SETTINGS_DIR": str(config / "lab/user-settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(config / "lab/workspaces"),
        "IPYTHONDIR": str(root / "ipython"),
    }
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ip=127.0.0.1", "--ServerApp.port=0", f"--IdentityProvider.token={Lab.token}"),
        *("--expose-app-in-browser", "--JupyterNotebookApp.expose_app_in_browser=True"),
        *("--LabApp.extension_manager=readonly", f"--ServerApp.root_dir={folder}"),
    ]
    with _running(command, env, log) as server:
        # JupyterLab picks the port.
        note = runtime / f"jpserver-{server.pid}.json"
        url = _wait_for(lambda: f"{LOCAL}:{json.loads(note.read_text())['port']}/api", server, log)
        yield Lab(url.removesuffix("/api"), folder, config / "lab/workspaces")


def marimo_app(root: Path, app: str) -> AbstractContextManager[str]:
    """Return a context manager that serves a marimo app and yields its address."""
    path = root / "app.py"
    path.write_text(app)
    env = os.environ | {
        "HOME": str(root),
        "XDG_CONFIG_HOME": str(root / "config"),
        "XDG_STATE_HOME": str(root / "state"),
        "XDG_CACHE_HOME": str(root / "cache"),
        "MARIMO_SKIP_UPDATE_CHECK": "1",
    }
    command = [
        *(sys.executable, "-m", "marimo", "run", "--headless", "--no-token", "--no-check"),
        *("--host", "127.0.0.1", "--port", "{port}", str(path)),
    ]
    return served(command, env, root / "marimo.log", "/health")


@contextmanager
def served(command: list[str], env: dict[str, str], log: Path, health: str = "") -> Iterator[str]:
    """Run a server on a free port, ``{port}`` in its command; yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    with _running([part.replace("{port}", port) for part in command], env, log) as server:
        url = f"{LOCAL}:{port}"
        _wait_for(lambda: url + health, server, log)
        yield url


def _wait_for(address: Callable[[], str], server: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the server responds at an address, which may be unknown at first."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            url = address()
            urllib.request.urlopen(url, timeout=5).close()
        except (OSError, ValueError):
            time.sleep(0.05)
        else:
            return url
    raise RuntimeError(f"the server did not start:\n{log.read_text()[-4000:]}")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".js": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def static_files(folder: Path) -> Iterator[str]:
    """Serve a folder on the loopback interface; yield the address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"{LOCAL}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
