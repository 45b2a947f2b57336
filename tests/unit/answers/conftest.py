"""Demo jobs of each format, shared by the tests of answers."""

import json
import re

import pytest

from hta_widgets.answers.job import Job
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory):
    """A folder with the jobs ``kineto``, ``byteps`` and ``mpi`` and their truth files."""
    folder = tmp_path_factory.mktemp("answers")
    write_demo(folder / "kineto", ranks=4, steps=5, straggler=2, events_per_step=700)
    write_byteps_job(folder / "byteps", steps=2, gradients=4)
    write_mpi_job(folder / "mpi", ranks=4, steps=3, slow_rank=1)
    return folder


@pytest.fixture(scope="session")
def jobs(demo_folder):
    """The loaded jobs by format."""
    names = ("kineto", "byteps", "mpi")
    return {name: Job.open([str(demo_folder / name)]) for name in names}


@pytest.fixture(scope="session")
def truths(demo_folder):
    """The changes made to each job, by format."""
    files = [*demo_folder.glob("*truth.json")]
    return {re.split("[._]", file.name)[0]: json.loads(file.read_text()) for file in files}


@pytest.fixture(scope="session")
def reply_errors(repo):
    """`reply_errors(reply)` returns violations of the documented JSON Schema."""
    # Imported here, because `_quick_imports` does not exist yet at collection time.
    jsonschema = pytest.importorskip("jsonschema")
    page = (repo / "docs/answers.md").read_text("utf-8")
    block = page.partition('{\n  "$schema"')[2].partition("\n```")[0]
    schema = json.loads('{"$schema"' + block)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    return lambda reply: [error.message for error in validator.iter_errors(reply)]
