"""Run a notebook in its own folder without changing the file, and raise errors in cells."""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def run(path: Path, *, folder: Path | None = None, timeout_s: int = 600) -> nbformat.NotebookNode:
    """Execute all cells and return the notebook with outputs.

    Parameters
    ----------
    path : Path
        The notebook.
    folder : Path, optional
        Working directory of the kernel. Default: the folder of the notebook.
    timeout_s : int
        For each cell.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=timeout_s,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder or path.parent)}},
        # Hides the warning that other processes can connect to the kernel.
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
    ).execute()
    return notebook


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run(Path(name))
