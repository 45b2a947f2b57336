"""Run a notebook in its own folder, and raise the error of a cell. The file is not changed."""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def run(path: Path, *, folder: Path | None = None, timeout_s: int = 600) -> nbformat.NotebookNode:
    """Execute all cells, and return the notebook with outputs.

    Parameters
    ----------
    path : Path
        The notebook.
    folder : Path, optional
        Where its kernel starts; the notebook's own folder if not given.
    timeout_s : int
        For each cell.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=timeout_s,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder or path.parent)}},
        # Only this process connects to the kernel, so its warning that others can is not needed.
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
    ).execute()
    return notebook


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run(Path(name))
