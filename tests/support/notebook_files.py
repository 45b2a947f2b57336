"""Write notebook files without nbformat, which takes three seconds to import."""

import json
from collections.abc import Iterable
from pathlib import Path


def write_notebook(path: Path, cells: Iterable[str]) -> None:
    code: dict[str, object] = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {
        "cells": [code | {"source": source} for source in cells],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    path.write_text(json.dumps(notebook), "utf-8")
