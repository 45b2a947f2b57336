"""The panel vectors that the page's engine is tested with."""

import json

import pytest
from support import panel_vectors

pytestmark = pytest.mark.slow


def test_the_file_is_what_the_script_writes():
    written = json.loads(panel_vectors.PATH.read_text("utf-8"))
    result = panel_vectors.unpacked(panel_vectors.vectors())
    assert panel_vectors.unpacked(written) == result
