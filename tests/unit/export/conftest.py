"""Small traces, written as text so that the test controls every digit and type."""

import gzip
import json
from decimal import Decimal

import pytest

import hta_widgets as hw


@pytest.fixture
def trace_file(tmp_path):
    """`trace_file(records, **top_level)` writes a trace and returns its path.

    Records may be dicts or JSON text.
    """

    def write(records, name="trace.json", **top_level):
        texts = [r if isinstance(r, str) else json.dumps(r) for r in records]
        head = "".join(f"{json.dumps(k)}: {json.dumps(v)},\n" for k, v in top_level.items())
        path = tmp_path / name
        path.write_text("{" + head + '"traceEvents": [\n' + ",\n".join(texts) + "\n]}")
        return path

    return write


@pytest.fixture
def load():
    return lambda source: hw.load(source, progress=False, cache=False)


@pytest.fixture
def document():
    """`read(path)` decodes an exported file independently of the package, with exact numbers."""

    def read(path):
        data = path.read_bytes()
        data = gzip.decompress(data) if path.name.endswith(".gz") else data
        return json.loads(data, parse_float=Decimal)

    return read
