"""Count how often `hta-widgets diff --fail-above` finds a regression, and how often it errs.

Pairs of healthy demo jobs with different seeds are compared, so all of their times differ. For a
regression, all times of the second run are stretched by 3, 5 or 10 %. The limit is half of the
stretch, rounded up. Healthy pairs are judged at each of these limits.

    python verdict_accuracy.py --pairs 40 --injected 20
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

from hta_widgets import diff
from hta_widgets.answers.job import Job
from hta_widgets.answers.verdict import judge
from hta_widgets.demo.job import write_demo

STRETCHES = {0.03: 0.02, 0.05: 0.03, 0.10: 0.05}  # stretch: limit


def write(folder: Path, seed: int) -> Path:
    at = folder / f"seed-{seed}"
    write_demo(
        at, ranks=2, steps=20, seed=seed, straggler=None, events_per_step=1600, format="json"
    )
    return at


def stretch(job: Path, share: float) -> Path:
    target = job.with_name(f"{job.name}-{share}")
    target.mkdir()
    for file in job.iterdir():
        document = json.loads(file.read_text("utf-8"))
        for event in document["traceEvents"]:
            for key in ("ts", "dur"):
                if isinstance(event.get(key), int | float):
                    event[key] *= 1 + share
        (target / file.name).write_text(json.dumps(document), "utf-8")
    return target


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--injected", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=5000)
    options = parser.parse_args()
    counts: dict[tuple[float, float], Counter[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before_path = write(folder, options.first_seed)
        before = Job.open([str(before_path)]).traces
        for number in range(options.pairs):
            after_path = write(folder, options.first_seed + number + 1)
            after = Job.open([str(after_path)]).traces
            both = diff.compare(before, after)
            for limit in STRETCHES.values():
                counts.setdefault((0.0, limit), Counter())[judge(both, limit).outcome] += 1
            for share, limit in STRETCHES.items() if number < options.injected else ():
                slower = Job.open([str(stretch(after_path, share))]).traces
                outcome = judge(diff.compare(before, slower), limit).outcome
                counts.setdefault((share, limit), Counter())[outcome] += 1
            before = after
    print("| stretched by | limit | pairs | regressed | within | cannot tell |")
    print("|---:|---:|---:|---:|---:|---:|")
    for (share, limit), outcomes in sorted(counts.items()):
        cells = [outcomes[outcome] for outcome in ("regressed", "within", "cannot tell")]
        row = [f"{share:.0%}", f"{limit:.0%}", sum(cells), *cells]
        print(f"| {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()
