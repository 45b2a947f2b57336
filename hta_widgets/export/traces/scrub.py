"""Remove host names, user names, folders, addresses and secrets from records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from hta_widgets.trace.columns import decode_fields, encode_fields

#: Top-level keys without private data. All others are removed.
_PUBLIC_KEYS = {
    "schemaVersion", "deviceProperties", "distributedInfo", "displayTimeUnit",
    "baseTimeNanoseconds", "record_shapes", "profile_memory", "with_stack", "with_flops",
    "with_modules", "cuda_runtime_version", "cuda_driver_version", "hip_runtime_version",
    "hip_driver_version", "cupti_version",
}  # fmt: skip
_REPLACEMENT = "scrubbed"

# docs/security.md documents the following three tables. To keep matching linear in the text length,
# repetitions are bounded or can begin only after certain characters.

#: Keys that are removed together with their values, at any depth.
PRIVATE_KEYS = re.compile(
    r"host|user|environ|(?:^|[ _.-])env(?:$|[ _.-])|cwd|path|(?<![a-z])file|argv|command|cmd|login"
    r"|mail|home|(?:^|[ _.-])(?:ip|mac)(?:$|[ _.-])|address$|addr$|working.dir"
    r"|owner|account|node.?(?:name|list)|machine|endpoint|(?<![a-z])ur[il]s?(?![a-z])"
    r"|passw|pass.?phrase|secret|credential|token$|cookie|authori|(?:api|access|private|session|ssh).?key",
    re.IGNORECASE,
)
#: Keys whose values are host or user names. These names are removed wherever they occur.
_NAMES = re.compile(r"host|user|login|owner|account|node.?name|machine|addr", re.IGNORECASE)
_SEPARATOR = r"[/\\]+"
_WORD = r"""[^"'\s/\\:;,()<>|*?\[\]{}]+"""
_HOME = re.compile(rf"(?<!\w)(?:home|Users|usr{_SEPARATOR}people){_SEPARATOR}({_WORD})[/\\]?")
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_SECRET = r"(?:token|passw(?:or)?d|passphrase|secret|(?:api|access|private)[_-]?key)"  # noqa: S105
_OWNER = r"host|node|machine|server|user|login|account|owner"
#: Patterns of private text with their replacements, in order of application.
PRIVATE_TEXT: tuple[tuple[re.Pattern[str], str], ...] = (
    # URLs, except file URLs
    (re.compile(r"(?<![\w+.-])(?!file:)[A-Za-z][\w+.-]{0,30}:[/\\]{2,}[^\s\"'<>]*"), _REPLACEMENT),
    # secrets after a keyword: --token x, TOKEN=x, password: x, Bearer x
    (
        re.compile(
            rf"({_SECRET}[\"']?\s{{0,4}}(?:=|:(?!:))\s{{0,4}}[\"']?|-{_SECRET}\s{{1,4}}"
            r"|\b(?:Bearer|Basic)\s{1,4})[^\s\"',;&]+",
            re.IGNORECASE,
        ),
        rf"\1{_REPLACEMENT}",
    ),
    # secrets with a known prefix
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:hf_|gh[a-z]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA|ASIA|eyJ)"
            r"[\w.-]{12,}"
        ),
        _REPLACEMENT,
    ),
    # e-mail addresses, and user@host before a colon
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:(?:\.[\w-]{1,63})+|(?=:))"), _REPLACEMENT),
    # host addresses: IPv4 (also as ip-… names), IPv6, MAC
    (re.compile(rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?![\w]|\.\d)"), _REPLACEMENT),
    (re.compile(r"(?<!\w)ip(?:-\d{1,3}){4}(?:\.[\w-]+)*"), _REPLACEMENT),
    (
        re.compile(
            r"(?<![\w:])(?:(?:fe80|f[cd][0-9a-f]{2})(?::[0-9a-f]{0,4}){2,7}"
            r"|[23][0-9a-f]{3}(?::[0-9a-f]{0,4}){3,7}"
            r"|[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5})(?![\w:])",
            re.IGNORECASE,
        ),
        _REPLACEMENT,
    ),
    # host and user names after a keyword: on host NAME, hostname=NAME, as user NAME
    (
        re.compile(
            rf"(\b(?:on|at|from|by|as|for)\s{{1,4}}(?:the\s{{1,4}})?(?:{_OWNER})\s{{1,4}}"
            rf"|(?:{_OWNER})(?:[_-]?name)?[\"']?\s{{0,4}}(?:=|:(?!:))\s{{0,4}}[\"']?)"
            r"(?!(?:to|and|or|is|in|of|for|with|side|memory|buffer|device|thread)\b)"
            r"(?=[\w.-]{0,64}[A-Za-z])[\w.-]+",
            re.IGNORECASE,
        ),
        rf"\1{_REPLACEMENT}",
    ),
    # home folders, then all folders of absolute paths, but not the file names
    (_HOME, "./"),
    (re.compile(r"(?<![\w./\\~)\]>-])~[A-Za-z_][\w.-]*[/\\]+"), ""),
    (
        re.compile(
            rf"(?:file:{_SEPARATOR}|(?<![\w./\\>)\]-])"
            rf"(?:(?:[A-Za-z]:|~[\w.-]*|\.{{1,2}})(?=[/\\]))?{_SEPARATOR}{_WORD}{_SEPARATOR})"
            rf"(?:{_WORD}{_SEPARATOR})*"
        ),
        "",
    ),
)
#: Signs of private data. Records without any such sign are not decoded. Here, quotes delimit keys.
_SUSPECT = re.compile(
    rb"[/\\@]|(?<=\d)\.\d{1,3}\.|ip-\d|[0-9a-f]:[0-9a-f]{0,4}:|[0-9a-f]-[0-9a-f]{2}-"
    rb"|(?:node|server)(?:_?name)?\"? ?[=: ]"
    rb"|hf_|gh[a-z]_|github_pat_|glpat-|sk-|xox|akia|asia|eyj|bearer|basic|token|home|process_name"
    rb"|" + re.sub(r"[$^]", '"', PRIVATE_KEYS.pattern).encode(),
    re.IGNORECASE,
)


# Floats are copied as text from the file, so that no digit changes.
_decode = msgspec.json.Decoder(float_hook=lambda text: msgspec.Raw(text.encode())).decode
_encode = msgspec.json.Encoder().encode


class Scrubber:
    """Removes private data from the file of a rank, using the tables of this module.

    User and host names found in the top-level keys are removed from all records.
    """

    def __init__(self, metadata: Mapping[str, Any], *names: str | None) -> None:
        private_names = {*_private_names(metadata), *(name for name in names if name)}
        private_names |= {part for name in private_names for part in re.split(r"[\\/@]", name)}
        words = {name.lower() for name in private_names}
        words |= {name.split(".")[0] for name in words if not name[:1].isdigit()}
        self._words = frozenset(word for word in words if len(word) > 2)
        # Records are searched for the longest ASCII part, since `bytes.lower` changes only ASCII.
        self._bytes = tuple(
            max(re.findall("[ -~]*", word), key=len).encode() for word in self._words
        )

    def top_level(self, values: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the top-level keys to keep."""
        return {key: self.json(raw) for key, raw in values.items() if key in _PUBLIC_KEYS}

    def record(self, text: bytes) -> bytes:
        """Return a record with private data removed."""
        lowered = text.lower()
        is_suspect = _SUSPECT.search(lowered) is not None
        if not is_suspect and not any(word in lowered for word in self._bytes):
            return text
        fields = decode_fields(text)
        if fields is None:
            return self.json(text)
        if fields.get("name") == b'"process_name"' and fields.get("ph") == b'"M"':
            _remove_arguments(fields)
        return encode_fields(
            {key: self.json(field) for key, field in fields.items() if not PRIVATE_KEYS.search(key)}
        )

    def json(self, raw: bytes) -> bytes:
        """Return a JSON text with private data removed."""
        if raw.lstrip()[:1] not in (b'"', b"{", b"["):
            return raw
        try:
            value, encode = _decode_json(raw)
            clean = self.value(value)
            return raw if clean == value else encode(clean)
        except (ValueError, RecursionError):
            return json.dumps(_REPLACEMENT).encode()

    def value(self, value: object) -> Any:
        """Return a JSON value with private data removed."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {
                self._text(key): self.value(item)
                for key, item in value.items()
                if not PRIVATE_KEYS.search(key)
            }
        return [self.value(item) for item in value] if isinstance(value, list) else value

    def _text(self, text: str) -> str:
        if text[:1] in ("{", "[") and text[-1:] in ("}", "]"):
            raw = text.encode("utf-8", "surrogatepass")
            inner = self.json(raw)
            if inner != raw and inner != json.dumps(_REPLACEMENT).encode():
                return inner.decode("utf-8", "surrogatepass")
        for pattern, replacement in PRIVATE_TEXT:
            text = pattern.sub(replacement, text)
        return _TOKEN.sub(self._replace_names, text) if self._words else text

    def _replace_names(self, token: re.Match[str]) -> str:
        """Replace a token, or those of its dot-separated parts, that is a host or user name."""
        if token[0].lower() in self._words:
            return _REPLACEMENT
        parts = token[0].split(".")
        return ".".join(_REPLACEMENT if part.lower() in self._words else part for part in parts)


def _decode_json(raw: bytes) -> tuple[Any, Callable[[Any], bytes]]:
    """Return a JSON value, and the function with which to encode it again."""
    try:
        return _decode(raw), _encode
    except msgspec.DecodeError:  # lone surrogates, which are valid in JSON
        return json.loads(raw), lambda value: json.dumps(value).encode()


_TOKEN = re.compile(r"[\w-]+(?:\.[\w-]+)*")


def _remove_arguments(fields: dict[str, bytes]) -> None:
    """Shorten a command line in a process name to the name of the program."""
    args = decode_fields(fields.get("args", b"")) or {}
    name = args.get("name", b"")
    if name[:1] == b'"':
        words = str(json.loads(name)).split()
        program = re.split(r"[/\\]", words[0])[-1] if words else ""
        args["name"] = json.dumps(program).encode()
        fields["args"] = encode_fields(args)


def _private_names(value: object, key: str = "") -> Iterable[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _private_names(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from _private_names(item, key)
    elif isinstance(value, str):
        yield from _HOME.findall(value)
        if _NAMES.search(key) and not re.search(r"\s", value):
            yield value
