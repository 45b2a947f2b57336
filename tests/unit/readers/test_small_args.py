"""Args of counters and metadata: kept as text, and just what decoding at once would have given."""

import json

import pytest

from hta_widgets.formats.kineto.columns import SmallArgs

from .conftest import event

BODIES = {
    3: b'{"ph": "C", "args": {"Total": 1.5, "n": 7}}',
    5: b'{"ph": "C"}',
    6: b'{"ph": "C", "args": {}}',
    8: b'{"ph": "C", "args": [1, 2]}',
    9: b'{"ph": "C", "args": {"a": 1}, "args": {"b": 123456789012345678901234567890}}',
    11: b'{"ph": "M", "args": {"name": "caf\\u00e9 \\ud800"}}',
    12: b'{"ph": "C", "args": {"bad": NaN}}',
    20: b'{"ph": "M", "args": {"name": "a\tb"}}',
}
#: As `json` reads it; without a value, or with another type, the result is empty.
SAID = {
    3: {"Total": 1.5, "n": 7},
    9: {"b": 123456789012345678901234567890},
    11: {"name": "café \ud800"},
    20: {"name": "a\tb"},
}


@pytest.fixture
def args():
    found = SmallArgs()
    for number, body in BODIES.items():
        found.add(number, body)
    return found


def test_each_by_its_number(args):
    assert {number: args[number] for number in SAID} == SAID
    assert set(args) == {*SAID, 12}
    assert json.dumps(args[12]) == '{"bad": NaN}'
    for number in (0, 4, 5, 6, 8, 21):
        assert number not in args
        assert args.get(number) is None
        with pytest.raises(KeyError):
            args[number]


@pytest.mark.parametrize("numbers", [[3], [3, 9], [3, 8, 9], [9, 11, 20], [0, 3, 5, 12, 20], []])
def test_many_at_once_are_as_one_by_one(args, numbers):
    assert repr(args.many(numbers)) == repr([args.get(number, {}) for number in numbers])


def test_more_counters_than_are_decoded_at_once(load_one, monkeypatch):
    monkeypatch.setattr("hta_widgets.trace.flows._AT_ONCE", 7)
    samples = [
        {"ph": "C", "name": f"c{i % 2}", "pid": i % 3, "ts": i, "args": {"x": i, "bad": "no"}}
        for i in range(40)
    ]
    trace, problems = load_one([event(), *samples])
    counters = trace.counters.sort_values("time_ns")
    assert counters["value"].tolist() == list(range(40))
    assert counters["name"].astype(str).tolist() == [f"c{i % 2}" for i in range(40)]
    assert counters["pid"].astype(str).tolist() == [str(i % 3) for i in range(40)]
    assert problems.loc[problems["kind"] == "skipped", "count"].tolist() == [40]
