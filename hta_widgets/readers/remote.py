"""Traces that lie elsewhere: in object stores, on web servers, behind whatever fsspec knows.

They are copied here first, into the cache: records are read again when someone asks for them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from hta_widgets.errors import TraceError
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.store.manifest import MANIFEST

from hta_widgets.readers import cache
from hta_widgets.readers.scratch import scratch

__all__ = ["Copied", "is_remote"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
#: Packages that fsspec needs for a protocol.
_DRIVERS = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "az": "adlfs",
    "adl": "adlfs",
    "hf": "huggingface_hub",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "smb": "smbprotocol",
    "hdfs": "pyarrow with libhdfs",
}
_FILES = (".json", ".gz", ".trc")
_TIMEOUT_S = 60
_BLOCK_BYTES = 1 << 20

#: Copies one file: its name there, the path here.
Fetch = Callable[[str, Path], None]


def is_remote(source: Any) -> bool:
    """Whether a source names anything that lies elsewhere."""
    if isinstance(source, str):
        return _URL.match(source) is not None
    if isinstance(source, Mapping):
        return any(is_remote(part) for part in source.values())
    return isinstance(source, (list, tuple)) and any(is_remote(part) for part in source)


@dataclass
class Copied:
    """Copies of what a source names, and what they are called where they come from.

    Parameters
    ----------
    keep : bool
        Whether copies stay in the cache; otherwise they last as long as this process.
    """

    keep: bool
    _names: dict[str, str] = field(default_factory=dict)

    def source(self, source: Any) -> Any:
        """Return the same source with local paths."""
        if isinstance(source, str) and is_remote(source):
            return self._local(source)
        if isinstance(source, Mapping):
            return {rank: self.source(part) for rank, part in source.items()}
        if isinstance(source, (list, tuple)):
            return [self.source(part) for part in source]
        return source

    def _local(self, url: str) -> str:
        protocol = url.partition("://")[0].lower()
        if protocol == "file":
            return unquote(urlsplit(url).path)
        names, fetch, base = (_web if protocol in {"http", "https"} else _elsewhere)(url)
        folder = cache.folder() if self.keep else scratch()
        identity = repr((url, sorted(names.items())))
        tree = folder / (hashlib.sha256(identity.encode()).hexdigest()[:40] + cache.REMOTE)
        if not tree.is_dir():
            _copy({name: base + name if name else url for name in names}, fetch, tree, url)
        os.utime(tree)
        for name in names:
            there = base + name if name else url
            self._names[str(tree / _path_of(there))] = there
        return str(tree / _path_of(url if names.keys() == {""} else base))

    def renamed(self, traces: TraceSet) -> TraceSet:
        """Return a set whose files are called as they are where they come from."""
        problems = Problems()
        for p in traces.found:
            file = p.file and self._names.get(p.file, p.file)
            problems.add(p.kind, p.count, p.detail, p.rank, file)
        return TraceSet.restored(
            [t.replace(path=self._names.get(t.path, t.path)) for t in traces.values()],
            problems,
            clock=traces.clock,
            origin_ns=traces.origin_ns,
            lift_ns=traces.lift_ns,
        )

    def told(self, error: TraceError) -> TraceError:
        """Return an error that names the file as it is called where it comes from."""
        path = None if error.path is None else self._names.get(error.path, error.path)
        return TraceError(error.message, path=path, place=error.place, remedy=error.remedy)


def _path_of(name: str) -> str:
    """Return a path that says of a file here what its name there says: ranks, workers."""
    url = urlsplit(name)
    path = url.netloc + url.path if url.scheme in {"http", "https"} else name.partition("://")[2]
    kept = [part for part in PurePosixPath(unquote(path)).parts if part not in {"/", "..", "."}]
    return "/".join(kept) or "file"


def _copy(names: Mapping[str, str], fetch: Fetch, tree: Path, url: str) -> None:
    """Fetch files into a folder that is there as a whole, or not."""
    part = None
    try:
        tree.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = Path(tempfile.mkdtemp(dir=tree.parent, suffix=cache.PART))
        for name, there in names.items():
            target = part / _path_of(there)
            target.parent.mkdir(parents=True, exist_ok=True)
            fetch(name, target)
        if not tree.is_dir():
            part.rename(tree)
    except OSError as cause:
        if not tree.is_dir():  # else another process was faster
            raise TraceError(
                f"cannot be copied here ({cause})", path=url, remedy="Is there room, and the net?"
            ) from None
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
    if tree.parent == cache.folder():
        cache.make_room(tree)


# --- web servers, with nothing but the standard library -------------------------------------------


def _web(url: str) -> tuple[dict[str, str], Fetch, str]:
    """Return the files' names and states, how to fetch them, and what names are relative to."""
    base = url.rstrip("/") + "/"

    def fetch(name: str, target: Path) -> None:
        with _reply(base + name if name else url) as reply, target.open("wb") as file:
            shutil.copyfileobj(reply, file, _BLOCK_BYTES)

    if not urlsplit(url).path.endswith(_FILES):
        try:
            with _reply(base + MANIFEST) as reply:
                ranks = json.loads(reply.read())["body"]["ranks"]
                state = _state(reply)
        except (TraceError, ValueError, KeyError, TypeError):
            pass
        else:
            # The manifest names each file of a store, and a store's files never change.
            return {MANIFEST: state, **{rank["file"]: "" for rank in ranks}}, fetch, base
    with _reply(url, method="HEAD") as reply:
        return {"": _state(reply)}, fetch, base


def _state(reply: Any) -> str:
    headers = ("ETag", "Last-Modified", "Content-Length")
    return repr([reply.headers.get(name) for name in headers])


def _reply(url: str, method: str = "GET") -> Any:
    request = urllib.request.Request(url, method=method)  # noqa: S310 - http or https
    try:
        return urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310
    except urllib.error.HTTPError as cause:
        cause.close()
        raise TraceError(
            f"the server answers {cause.code} ({cause.reason})", path=url, remedy="Check the URL."
        ) from None
    except (OSError, ValueError) as cause:
        raise TraceError(
            f"cannot be reached ({getattr(cause, 'reason', cause)})",
            path=url,
            remedy="Check the URL and the network.",
        ) from None


# --- everything else, with fsspec -----------------------------------------------------------------


def _elsewhere(url: str) -> tuple[dict[str, str], Fetch, str]:
    """Return the files' names and states, how to fetch them, and what names are relative to."""
    system, path = _file_system(url)
    try:
        if any(letter in path for letter in "*?["):
            root = path[: re.search(r"[*?\[]", path).start()].rpartition("/")[0]  # type: ignore[union-attr]
            found = system.glob(path)
        elif system.isdir(path):
            root, found = path, system.find(path)
        elif system.exists(path):
            return {"": str(system.ukey(path))}, lambda _, to: system.get_file(path, str(to)), ""
        else:
            root, found = "", None
        files = [file for file in found or () if not system.isdir(file)]
    except Exception as cause:  # noqa: BLE001 - each driver has exceptions of its own
        raise TraceError(
            f"cannot be listed ({cause})", path=url, remedy="Check the path and your credentials."
        ) from None
    if found is None:
        raise TraceError("does not exist", path=url, remedy="Check the path.")
    if not files:
        raise TraceError("holds no files", path=url, remedy="Check the path.")
    root = root.rstrip("/") + "/"
    names = {file.removeprefix(root): str(system.ukey(file)) for file in files}

    def fetch(name: str, target: Path) -> None:
        system.get_file(root + name, str(target))

    return names, fetch, url.partition("://")[0] + "://" + root.lstrip("/")


def _file_system(url: str) -> tuple[Any, str]:
    protocol = url.partition("://")[0].lower()
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - few need it
    except ImportError:
        packages = " ".join(filter(None, ("fsspec", _DRIVERS.get(protocol))))
        raise TraceError(
            f"reading {protocol}:// needs fsspec", path=url, remedy=f"pip install {packages}"
        ) from None
    try:
        system, path = url_to_fs(url)
    except ImportError as cause:
        driver = _DRIVERS.get(protocol)
        raise TraceError(
            f"reading {protocol}:// needs {driver or 'a package that is not installed'}",
            path=url,
            remedy=f"pip install {driver}" if driver else str(cause),
        ) from None
    except Exception as cause:  # noqa: BLE001 - each driver has exceptions of its own
        raise TraceError(
            f"cannot be opened ({cause})", path=url, remedy="Check the path and your credentials."
        ) from None
    return system, path
