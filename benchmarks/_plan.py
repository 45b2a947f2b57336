"""The scripts of `all.py` in order, and their arguments with `--quick`."""

from dataclasses import dataclass

__all__ = ["PLAN", "Step"]


@dataclass(frozen=True)
class Step:
    """A script with its arguments. `quick` is None if `--quick` skips the script."""

    name: str
    script: str
    full: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = ()
    limit_s: int = 600


#: Rows of `big.py` shown on the page. Each row takes a minute.
BIG_ROWS = ("bare", "load, empty", "load, cache", "load, store", "HTA", "one file")

PLAN = (
    Step("load", "load", ("--repeat", "2"), ("--only", "small", "--repeat", "1"), limit_s=1500),
    Step("big", "big", ("--only", *BIG_ROWS),
         ("--ranks", "4", "--hta-ranks", "1", "--one-file-gb", "0"), 900),
    Step("analyses", "analyses", ("--turns", "1", "--repeat", "3"),
         ("--only", "resnet50", "--turns", "1", "--repeat", "1")),
    Step("viewers", "viewers", (), ("--only", "small", "--moves", "zoom")),
    Step("frames", "frames", (), ("--ranks", "8")),
    Step("tiles", "tiles", ("--views", "30"), None),
    Step("brush", "brush", ("--brushes", "10", "--page"), ("--brushes", "3", "--steps", "5")),
    Step("ranks", "ranks", (), None),
    Step("ranks-dask", "ranks", ("--dask",), None, 400),
    Step("cluster", "cluster", ("--repeat", "1"), ("--ranks", "4", "--repeat", "1")),
    Step("diff", "diff", (), ("--repeat", "1")),
)  # fmt: skip
