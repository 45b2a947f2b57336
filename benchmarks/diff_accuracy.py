"""Count how often a comparison finds injected changes, and how often it reports false ones.

Demo jobs are written in pairs with different seeds, so all times of the two runs differ. For each
kind of pair, the table has the number of pairs with exactly the injected findings, the number of
missed changes, and the number of false findings. Pairs with one step per side have the least
information about the spread. All jobs have Python functions and modules; in the second job of each
pair, their line numbers, folder and module numbers differ. For pairs with a slow rank on one side,
the table has the number of pairs in which exactly this rank is found.

    python diff_accuracy.py --first-seed 10000 --pairs 60
    python diff_accuracy.py --pairs 4                      # a quick try
"""

import argparse
import itertools
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from _harness import describe, machine, save

import hta_widgets as hw
from hta_widgets import diff
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.training_step import CHANGES, ChangeName

#: Job sizes, used in turn: ranks, steps and records per step.
SHAPES = list(itertools.product((2, 4), range(3, 9), (700, 1600)))
#: Sizes of jobs with a slow rank on one side.
SLOW_SHAPES = list(itertools.product((4, 8), range(3, 9), (700, 1600)))
_SHOWN = 5  # number of mistakes shown for each kind
KINDS: dict[str, tuple[ChangeName, ...]] = {
    "nothing": (),
    **{name: (name,) for name in CHANGES},
    "all four": CHANGES,
}


@dataclass
class Score:
    """Counts of findings for pairs of one kind."""

    pairs: int = 0
    exact: int = 0
    injected: int = 0
    missed: int = 0
    wrong: int = 0
    headlines: int = 0
    slight: int = 0
    ranks: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, both: diff.Comparison, expected: set[tuple[str, str]], where: str) -> None:
        """Count the findings for a pair."""
        frame = diff.changes(both)
        reported = set(zip(frame["change"].astype(str), frame["name"].astype(str), strict=True))
        # Other findings count as false only in pairs without changes.
        beyond = (
            Counter(finding.kind for finding in diff.findings(both)) if not expected else Counter()
        )
        text = [kind for kind in ("headline", "composition") for _ in range(beyond[kind])]
        self.pairs += 1
        self.exact += reported == expected and not text
        self.injected += len(expected)
        self.missed += len(expected - reported)
        self.wrong += len(reported - expected)
        self.headlines += len(text)
        self.slight += beyond["slight"]
        wrong = named_ranks(both)
        self.ranks += len(wrong)
        self.examples += [f"{where}: rank {rank}" for rank in wrong]
        self.examples += [f"{where}: missed {finding}" for finding in sorted(expected - reported)]
        self.examples += [f"{where}: wrong {finding}" for finding in sorted(reported - expected)]
        self.examples += [f"{where}: {kind}" for kind in text]

    def add_slow(self, both: diff.Comparison, rank: int, where: str) -> None:
        """Count the findings for a pair that has a slow rank on one side."""
        reported = named_ranks(both)
        self.pairs += 1
        self.injected += 1
        self.exact += reported == [rank]
        self.missed += rank not in reported
        self.ranks += len(set(reported) - {rank})
        self.examples += [f"{where}: {reported}"] * (reported != [rank])


def named_ranks(both: diff.Comparison) -> list[int]:
    """Return the ranks that the findings name as stragglers on one side."""
    stragglers = (finding for finding in diff.findings(both) if finding.kind == "straggler")
    return [rank for finding in stragglers for rank in finding.ranks]


def with_functions(path: Path, *, moved: bool) -> None:
    """Enclose phases in Python functions, and layer operators in modules, in place."""
    document = json.loads(path.read_text("utf-8"))
    result: list[dict[str, object]] = []
    modules: Counter[str] = Counter()
    for event in document["traceEvents"]:
        name, category = str(event["name"]), event.get("cat")
        frame = ""
        if category == "user_annotation" and not name.startswith(("nccl:", "ProfilerStep")):
            line = 100 + len(name) + (7 + len(name)) * moved
            frame = f"{'/opt/app/' * moved}train.py({line}): {re.sub('[^a-z]+', '_', name.lower())}"
        elif category == "cpu_op" and name in ("aten::linear", "aten::layer_norm"):
            frame = f"nn.Module: {name[6:]}_{modules[name] + 3 * moved}"
            modules[name] += 1
        if frame:
            result.append(event | {"cat": "python_function", "name": frame, "args": {}})
        result.append(event)
    document["traceEvents"] = result
    path.write_text(json.dumps(document), "utf-8")


def job(
    folder: Path,
    seed: int,
    shape: tuple[int, int, int],
    changes: tuple[ChangeName, ...],
    *,
    moved: bool = False,
    straggler: int | None = 5,
) -> tuple[hw.TraceSet, set[tuple[str, str]]]:
    """Write and load a job; return it with its injected changes."""
    ranks, steps, records = shape
    at = folder / f"seed-{seed}"
    truth = write_demo(
        at, seed=seed, ranks=ranks, steps=steps, events_per_step=records, changes=changes,
        straggler=straggler, format="json",
    )  # fmt: skip
    for path in at.glob("rank-*.json"):
        with_functions(path, moved=moved)
    done = {(item["change"], item["name"]) for item in truth["changes"]}
    return hw.load(at, cache=False, progress=False), done


def measured(first_seed: int, pairs: int) -> dict[str, Score]:
    """Score pairs of every kind."""
    seeds = itertools.count(first_seed)
    scores: dict[str, Score] = {}

    def cases() -> Iterator[tuple[str, tuple[ChangeName, ...], tuple[int, int, int]]]:
        for kind, changes in KINDS.items():
            for number in range(pairs):
                # 7 is coprime to the number of shapes, so even a few pairs vary in shape.
                yield kind, changes, SHAPES[number * 7 % len(SHAPES)]

    for kind, changes, shape in cases():
        with tempfile.TemporaryDirectory() as folder:
            numbers = next(seeds), next(seeds)
            before, _ = job(Path(folder), numbers[0], shape, ())
            after, done = job(Path(folder), numbers[1], shape, changes, moved=True)
            where = f"{kind}, seeds {numbers[0]} and {numbers[1]}, {shape[0]} ranks × {shape[1]}"
            scores.setdefault(kind, Score()).add(diff.compare(before, after), done, where)
            numbered = before.events(columns=["step"])["step"].max()
            alone = diff.compare(
                before.select(f"step == {numbered}"), after.select(f"step == {numbered}")
            )
            name = f"{kind}, one step a side"
            scores.setdefault(name, Score()).add(alone, done, f"{where}, step {numbered}")
            if kind == "nothing":
                two = diff.compare(
                    before.select(f"step == {numbered - 1}"), before.select(f"step == {numbered}")
                )
                scores.setdefault("two steps of one run", Score()).add(two, set(), where)
                ranks = diff.compare(after.select(ranks=[0]), after.select(ranks=[shape[0] - 2]))
                if shape[0] > 2:
                    scores.setdefault("two ranks of one run", Score()).add(ranks, set(), where)
    for kind, slow in (("a rank becomes slow", 1), ("a slow rank is repaired", 0)):
        for number in range(pairs):
            shape = SLOW_SHAPES[number * 7 % len(SLOW_SHAPES)]
            rank = number % shape[0]
            with tempfile.TemporaryDirectory() as folder:
                sides = [
                    job(
                        Path(folder), next(seeds), shape, (),
                        moved=side == 1, straggler=rank if side == slow else None,
                    )[0]
                    for side in (0, 1)
                ]  # fmt: skip
                where = f"{kind}, rank {rank}, {shape[0]} ranks × {shape[1]}"
                scores.setdefault(kind, Score()).add_slow(diff.compare(*sides), rank, where)
    return scores


def table(scores: dict[str, Score]) -> str:
    """Return a Markdown table with a row for each kind of pair."""
    columns = "done to the second run, pairs, exactly told, missed, names, headlines, slight, ranks"
    lines = [f"| {columns.replace(', ', ' | ')} |", f"|---|{'---:|' * columns.count(',')}"]
    lines += [
        f"| {name} | {item.pairs} | {item.exact / item.pairs:.1%} "
        f"| {item.missed} of {item.injected} | {item.wrong} | {item.headlines} | {item.slight} "
        f"| {item.ranks} |"
        for name, item in scores.items()
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first-seed", type=int, default=10_000, help="%(default)s")
    parser.add_argument("--pairs", type=int, default=60, help="pairs of each kind (%(default)s)")
    options = parser.parse_args()
    begin = time.perf_counter()
    scores = measured(options.first_seed, options.pairs)
    print(describe(machine()))
    print(f"\n{table(scores)}\n")
    for score in scores.values():
        print(*score.examples[:_SHOWN], sep="\n", end="\n" * bool(score.examples))
    print(f"{time.perf_counter() - begin:.0f} s")
    save(
        "diff_accuracy",
        {
            "first_seed": options.first_seed,
            "pairs": options.pairs,
            "scores": {name: asdict(item) for name, item in scores.items()},
        },
    )


if __name__ == "__main__":
    main()
