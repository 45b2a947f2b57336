"""Local copies of remote files: of web servers, and of all protocols of fsspec.

A copy lies in the cache, in a folder that is named by the URL and the state of its files. What a
user sees of a URL, such as the name of a trace's file, is without user info, query and fragment.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import SplitResult, unquote, urlsplit

from hta_widgets.errors import TraceError, redact_urls
from hta_widgets.files import temporary_folder
from hta_widgets.readers import cache
from hta_widgets.store.files import MANIFEST
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.traceset import TraceSet

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
#: The package that fsspec needs for each protocol.
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
_FILES = (".json", ".gz", ".zst", ".trc")
_TIMEOUT_S = 60
#: A server that sends less than this is given up after `_TIMEOUT_S`.
_MIN_BYTES_PER_S = 1000
_BLOCK_BYTES = 1 << 20
#: Maximum size of a manifest; that of 100,000 ranks has 60 MB.
_MAX_MANIFEST_BYTES = 1 << 28

#: Function that downloads a file, given its remote name and the local path.
Fetch = Callable[[str, Path], None]


def is_remote(source: Any) -> bool:
    """Whether a source names a remote file."""
    if isinstance(source, str):
        return _URL.match(source) is not None
    if isinstance(source, Mapping):
        return any(is_remote(part) for part in source.values())
    return isinstance(source, (list, tuple)) and any(is_remote(part) for part in source)


@dataclass
class LocalCopies:
    """Local copies of remote files, and their original names."""

    keep: bool
    _names: dict[str, str] = field(default_factory=dict)

    def source(self, source: Any) -> Any:
        """Return the source with local paths; download the files that are not there yet."""
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
            return unquote(_split(url).path)
        names, fetch, base = (_http_files if protocol in {"http", "https"} else _fsspec_files)(url)
        folder = cache.folder() if self.keep else temporary_folder()
        identity = repr((url, sorted(names.items())))
        tree = folder / (hashlib.sha256(identity.encode()).hexdigest()[:40] + cache.REMOTE)
        if not tree.is_dir():
            _download_tree({name: base + name if name else url for name in names}, fetch, tree, url)
        os.utime(tree)
        for name in names:
            file_url = base + name if name else url
            self._names[str(tree / _path_of(file_url))] = redact_urls(file_url)
        return str(tree / _path_of(url if names.keys() == {""} else base))

    def with_original_names(self, traces: TraceSet) -> TraceSet:
        """Return the set with the original names of its files."""
        problems = Problems()
        for p in traces.problem_list:
            file = p.file and self._names.get(p.file, p.file)
            problems.add(p.kind, p.count, p.detail, p.rank, file)
        return TraceSet.restore(
            [
                t.replace(
                    path=self._names.get(t.path, t.path),
                    profile_path=t.profile_path and self._names.get(t.profile_path, t.profile_path),
                )
                for t in traces.values()
            ],
            problems,
            clock=traces.clock,
            origin_ns=traces.origin_ns,
            lift_ns=traces.origin_offset_ns,
        )

    def with_original_name(self, error: TraceError) -> TraceError:
        """Return the error with the original name of the file."""
        path = None if error.path is None else self._names.get(error.path, error.path)
        return TraceError(error.message, path=path, place=error.place, remedy=error.remedy)


def _path_of(name: str) -> str:
    """Return a relative path for a URL; folder and file names stay, as they may state ranks."""
    path = redact_urls(name).partition("://")[2]
    kept = [part for part in PurePosixPath(unquote(path)).parts if part not in {"/", "..", "."}]
    return "/".join(kept) or "file"


def _download_tree(names: Mapping[str, str], fetch: Fetch, tree: Path, url: str) -> None:
    """Download files into a temporary folder; rename it to `tree` when all are complete."""
    part = target = None
    try:
        tree.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = Path(tempfile.mkdtemp(dir=tree.parent, suffix=cache.PART))
        for name, there in names.items():
            target = part / _path_of(there)
            target.parent.mkdir(parents=True, exist_ok=True)
            fetch(name, target)
        if not tree.is_dir():
            part.rename(tree)
    except TraceError:
        raise
    except Exception as cause:  # noqa: BLE001 - each driver has exceptions of its own
        if not tree.is_dir():  # else another process has written it first
            place = None
            if target is not None and target.is_file():
                place = f"{target.name}, byte {target.stat().st_size:,}"
            raise TraceError(
                f"cannot be copied here ({cause})",
                path=url,
                place=place,
                remedy="Check disk and network.",
            ) from None
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
    if tree.parent == cache.folder():
        cache.evict(tree)


# --- web servers, with the standard library only --------------------------------------------------


def _http_files(url: str) -> tuple[dict[str, str], Fetch, str]:
    """Return the state of each file by name, a function to fetch files, and the names' base URL."""
    parts = _split(url)

    def url_of(name: str) -> str:
        folder = parts.path.rstrip("/")
        return parts._replace(path=f"{folder}/{name}").geturl() if name else url

    def fetch(name: str, target: Path) -> None:
        with _open_url(url_of(name)) as reply, target.open("wb") as file:
            _copy_reply(reply, file, url)
            if reply.length:  # else all announced bytes have arrived
                raise OSError(f"the connection ended {reply.length:,} bytes early")

    base = redact_urls(url).rstrip("/") + "/"
    if not parts.path.endswith(_FILES):
        files = _stored_files(url_of(MANIFEST))
        if files is not None:
            return files, fetch, base
    with _open_url(url, method="HEAD") as reply:
        return {"": _state(reply)}, fetch, base


def _stored_files(url: str) -> dict[str, str] | None:
    """Return the state of each file of a store by its manifest; None if there is no manifest."""
    manifest = io.BytesIO()
    try:
        reply = _open_url(url)
    except TraceError:
        return None
    with reply:
        try:
            _copy_reply(reply, manifest, url, _MAX_MANIFEST_BYTES)
            ranks = json.loads(manifest.getvalue())["body"]["ranks"]
            # The manifest names each file of a store, and a store's files never change.
            return {MANIFEST: _state(reply), **{str(rank["file"]): "" for rank in ranks}}
        except TraceError:
            raise
        except (HTTPException, OSError, ValueError, KeyError, TypeError, RecursionError):
            return None


def _copy_reply(reply: Any, target: IO[bytes], url: str, limit_bytes: float = math.inf) -> None:
    """Copy a server's reply; refuse one that is larger than the limit, or hardly advances."""
    start_s, size_bytes = time.monotonic(), 0
    while block := reply.read1(_BLOCK_BYTES):
        target.write(block)
        size_bytes += len(block)
        if size_bytes > limit_bytes:
            raise TraceError(
                f"is larger than {limit_bytes / 1e6:,.0f} MB",
                path=url,
                remedy="Is it what you want to load?",
            )
        elapsed_s = time.monotonic() - start_s
        if elapsed_s > _TIMEOUT_S and size_bytes < _MIN_BYTES_PER_S * elapsed_s:
            raise TraceError(
                f"the server has sent {size_bytes:,} bytes in {elapsed_s:.0f} s",
                path=url,
                remedy="Check the network, or download the file by other means.",
            )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port, parts.hostname  # raise errors, too
    except ValueError as cause:
        raise TraceError(f"is not a URL ({cause})", path=url, remedy="Check the URL.") from None
    return parts


def _state(reply: Any) -> str:
    headers = ("ETag", "Last-Modified", "Content-Length")
    return repr([reply.headers.get(name) for name in headers])


def _open_url(url: str, method: str = "GET") -> Any:
    from urllib.error import HTTPError  # noqa: PLC0415 - imports ssl and email
    from urllib.request import HTTPRedirectHandler, Request, build_opener  # noqa: PLC0415

    class WebRedirects(HTTPRedirectHandler):
        """Follows redirects to web servers only; `urllib` follows those to FTP as well."""

        def redirect_request(self, *args: Any) -> Any:
            request, reply, code, _, headers, target = args
            if urlsplit(target).scheme.lower() not in {"http", "https"}:
                reason = "a redirect to another protocol"
                raise HTTPError(request.full_url, code, reason, headers, reply)
            return super().redirect_request(*args)

    parts = _split(url)
    user, _, address = parts.netloc.rpartition("@")
    request = Request(parts._replace(netloc=address, fragment="").geturl(), method=method)  # noqa: S310 - http or https
    if user:
        encoded = base64.b64encode(unquote(user).encode()).decode()
        # It is not sent to the target of a redirect.
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    try:
        return build_opener(WebRedirects).open(request, timeout=_TIMEOUT_S)
    except HTTPError as cause:
        cause.close()
        raise TraceError(
            f"the server answers {cause.code} ({cause.reason})", path=url, remedy="Check the URL."
        ) from None
    except (HTTPException, OSError, ValueError, OverflowError) as cause:
        raise TraceError(
            f"cannot be reached ({getattr(cause, 'reason', cause)})",
            path=url,
            remedy="Check the URL and the network.",
        ) from None


# --- other protocols, with fsspec -----------------------------------------------------------------


def _fsspec_files(url: str) -> tuple[dict[str, str], Fetch, str]:
    """Return the state of each file by name, a function to fetch files, and the names' base URL."""
    system, path = _file_system(url)
    try:
        if any(letter in path for letter in "*?["):
            root = path[: re.search(r"[*?\[]", path).start()].rpartition("/")[0]  # type: ignore[union-attr]
            file_names = system.glob(path)
        elif system.isdir(path):
            root, file_names = path, system.find(path)
        elif system.exists(path):
            return {"": str(system.ukey(path))}, lambda _, to: system.get_file(path, str(to)), ""
        else:
            root, file_names = "", None
        files = [file for file in file_names or () if not system.isdir(file)]
    except Exception as cause:  # noqa: BLE001 - each driver has exceptions of its own
        raise TraceError(
            f"cannot be listed ({cause})", path=url, remedy="Check the path and your credentials."
        ) from None
    if file_names is None:
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
