"""The public surface: what `dir` shows, what docs/api.md lists, and what importing costs."""

import re
import subprocess
import sys

import pytest

import hta_widgets as hw


@pytest.mark.parametrize(
    "module", ["analysis", "charts", "compat", "diff", "taxonomy", "cache", ""]
)
def test_dir_shows_what_the_documentation_lists(repo, module):
    face = getattr(hw, module) if module else hw
    title = f"hta_widgets.{module}".rstrip(".")
    text = (repo / "docs/api.md").read_text("utf-8")
    section = re.split(r"^## ", text.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]
    listed = re.findall(r"`(\w+)`", section.partition("\n\n")[2])
    assert sorted(dir(face)) == sorted(listed)
    assert all(getattr(face, name) is not None for name in listed)


@pytest.mark.parametrize(
    ("code", "unused"),
    [
        ("import hta_widgets", "pandas"),
        ("from hta_widgets.cli import main; main(['--help'])", "pandas"),
        ("from hta_widgets import load", "bokeh"),
        ("from hta_widgets import load", "anywidget"),
    ],
)
def test_imports_are_lazy(code, unused):
    program = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
        f"sys.exit({unused!r} in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_like_this"):
        hw.nothing_like_this  # noqa: B018
