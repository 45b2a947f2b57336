"""Take out what tells about people and machines: hosts, users, environment, paths."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from hta_widgets.trace.record_fields import decode_fields
from hta_widgets.trace.record_fields import encode_fields

__all__ = ["Scrub"]

#: Top-level keys that say nothing of that kind; all others go.
_HARMLESS = {
    "schemaVersion",
    "deviceProperties",
    "distributedInfo",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "record_shapes",
    "profile_memory",
    "with_stack",
    "with_flops",
    "with_modules",
    "cuda_runtime_version",
    "cuda_driver_version",
    "hip_runtime_version",
    "hip_driver_version",
    "cupti_version",
}
_TELLING = re.compile(
    r"host|user|environ|(?:^|[ _-])env(?:$|[ _-])|cwd|path|(?<![a-z])file|argv|command|cmd|login"
    r"|mail|home|(?:^|[ _-])ip(?:$|[ _-])|address$|working.dir",
    re.IGNORECASE,
)
_WORD = rb'[^"\s/\\:;,()<>|*?\[\]{}\']+'
#: A directory in JSON text: /a/b/, ~/a/, ../a/, C:\\a\\, \\\\host\\share\\, file:///a/.
_DIRECTORY = re.compile(
    rb"(?:file:(?:\\?/){2}|(?<![\w.:/\\-])(?:[A-Za-z]:(?=\\\\|\\?/)|~[\w.-]*(?=\\?/)|\.{1,2}(?=\\?/))?)"
    rb"(?:(?:\\\\){1,2}|\\?/)(?:" + _WORD + rb"(?:\\\\|\\?/))+"
)
_SUSPECT = re.compile(rb"/|\\\\|@")
_HOME = re.compile(rb"(?:home|Users|usr\\?/people)(?:\\\\|\\?/)(" + _WORD + rb")(?:\\\\|\\?/)")
_MAIL = re.compile(rb"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_GONE = b"scrubbed"


class Scrub:
    """Scrubs one rank's file.

    Directories of absolute paths go, names of files stay; so do stack frames without their
    directories. Names of users and hosts that the file's own keys tell go wherever they stand.

    Parameters
    ----------
    metadata : mapping
        The file's top-level keys, decoded.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        words = {word for word in _tokens(metadata) if len(word) > 2}
        escaped = sorted((re.escape(word).encode() for word in words), key=len, reverse=True)
        pattern = rb"(?<![\w-])(?:" + b"|".join(escaped) + rb")(?![\w-])"
        self._words = re.compile(pattern) if escaped else None

    def top_level(self, values: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the top-level keys that may stay."""
        return {
            key: self._text(_without_telling(raw))
            for key, raw in values.items()
            if key in _HARMLESS
        }

    def record(self, text: bytes) -> bytes:
        """Return a record without what tells."""
        fields = decode_fields(text)
        if fields is None:
            return self._text(text)
        args = decode_fields(fields.get("args", b""))
        if args is not None and any(_TELLING.search(key) for key in args):
            kept = {key: raw for key, raw in args.items() if not _TELLING.search(key)}
            fields["args"] = encode_fields(kept)
            text = encode_fields(fields)
        if fields.get("name") == b'"process_name"' and fields.get("ph") == b'"M"':
            text = self._program_only(fields)
        return self._text(text)

    def _program_only(self, fields: dict[str, bytes]) -> bytes:
        """Keep the program of a command line."""
        args = decode_fields(fields.get("args", b"")) or {}
        name = args.get("name", b"")
        if name[:1] == b'"':
            words = str(json.loads(name)).split()
            program = re.split(r"[/\\]", words[0])[-1] if words else ""
            args["name"] = json.dumps(program).encode()
            fields["args"] = encode_fields(args)
        return encode_fields(fields)

    def _text(self, text: bytes) -> bytes:
        if _SUSPECT.search(text):
            text = _DIRECTORY.sub(b"", text)
            text = _MAIL.sub(_GONE, text)
        return text if self._words is None else self._words.sub(_GONE, text)


def _without_telling(raw: bytes) -> bytes:
    """Drop telling keys at any depth."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: clean(v) for k, v in value.items() if not _TELLING.search(k)}
        return [clean(item) for item in value] if isinstance(value, list) else value

    if raw[:1] not in (b"{", b"["):
        return raw
    return json.dumps(clean(json.loads(raw)), ensure_ascii=False).encode()


def _tokens(value: Any, key: str = "") -> Iterable[str]:
    """Names of hosts and users among the top-level values."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _tokens(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from _tokens(item, key)
    elif isinstance(value, str):
        for found in _HOME.findall(value.encode()):
            yield found.decode(errors="replace")
        if re.search(r"host|user|login", key, re.IGNORECASE) and not re.search(r"\s", value):
            yield value
