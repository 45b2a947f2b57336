"""A different batch size, recognized from input shapes."""

import pytest
from support.small import event, load
from support.turned import assert_mirrored

from hta_widgets import diff as hd


def job(tmp_path, *shapes):
    """Load a step of operators with these input shapes."""
    records = [event("user_annotation", "ProfilerStep#1", 0, 100_000, pid=10)]
    for place, inputs in enumerate(shapes):
        start = 1000 * place + 1000
        dims = {"Input Dims": inputs}
        records.append(event("cpu_op", f"aten::op{place}", start, start + 500, pid=10, **dims))
    return load(tmp_path, records)


def shapes_text(diff):
    texts = [finding.text for finding in hd.findings(diff) if finding.kind == "shapes"]
    return [text.replace("\u202f", " ") for text in texts]


def test_a_batch_of_twice_the_size(tmp_path):
    def side(batch):
        return job(
            tmp_path,
            [[batch, 512], [512]],
            [[], [batch * 16, 512]],
            [[512, 512]],
            [[batch]],
            [[], []],
        )

    present, back = assert_mirrored(side(32), side(64))
    words = "in 3 of 4 calls of operators, as if the batch size changed."
    assert shapes_text(present) == [f"Shapes: the first dimension of inputs 32 → 64 {words}"]
    assert shapes_text(back) == [f"Shapes: the first dimension of inputs 64 → 32 {words}"]
    assert hd.findings(hd.compare(side(32), side(32))) == []


def test_the_batch_of_linear_layers_with_a_bias(tmp_path):
    def side(batch, width=768):
        return job(tmp_path, *[[[768], [batch, width], [width, 768]]] * 4)

    (text,) = shapes_text(hd.compare(side(12), side(24)))
    words = "in 4 of 4 calls of operators, as if the batch size changed."
    assert text == f"Shapes: the first dimension of inputs 12 → 24 {words}"
    assert shapes_text(hd.compare(side(12), side(12, width=1536))) == []


@pytest.mark.parametrize(
    "other",
    [
        [[[33]], [[40]], [[64]], [[32]]],  # by several factors
        [[[64]], [[64]], [[32]], [[32]]],  # two calls
        [None, None, None, None],
    ],
)
def test_shapes_that_tell_of_no_batch(tmp_path, other):
    assert shapes_text(hd.compare(job(tmp_path, *[[[32]]] * 4), job(tmp_path, *other))) == []


def test_without_the_files_nothing_is_known_of_shapes(tmp_path):
    sides = [job(tmp_path, *[[[size]]] * 4) for size in (32, 64)]
    for file in tmp_path.glob("*/*"):
        file.unlink()
    assert shapes_text(hd.compare(*sides)) == []


@pytest.mark.parametrize(("second", "is_said"), [((16, 32), True), ((16, 16), False)])
def test_a_size_that_varies_from_step_to_step_says_nothing(tmp_path, second, is_said):
    """In the first step, the batch doubles from 32 to 64."""

    def side(*batches):
        records = []
        for step, batch in enumerate(batches):
            now = 100_000 * step
            name = f"ProfilerStep#{step}"
            records.append(event("user_annotation", name, now, now + 100_000, pid=10))
            for start in range(now + 1_000, now + 5_000, 1_000):
                dims = {"Input Dims": [[batch, 512, 96]]}
                records.append(event("cpu_op", "aten::mm", start, start + 500, pid=10, **dims))
        return load(tmp_path, records)

    sides = [side(*batches) for batches in zip((32, 64), second, strict=True)]
    assert bool(shapes_text(hd.compare(*sides))) == is_said


@pytest.mark.parametrize("flattened", [0, 3])
def test_longer_sequences_of_the_same_batch(tmp_path, flattened):
    """Flattened inputs have one row per token: sequences times their length."""

    def side(length):
        return job(
            tmp_path,
            *[[[8 * length, 4096], [4096, 4096]]] * flattened,
            [[8, length, 4096], [4096]],
            [[8, length, 4096]],
            [[8, 32, length, 128]] * 3,
            [[4096, 4096]],
        )

    present, back = assert_mirrored(side(512), side(1024))
    words = f"in 3 of {4 + flattened} calls of operators, as if the sequence length changed."
    assert shapes_text(present) == [f"Shapes: an inner dimension of inputs 512 → 1 024 {words}"]
    assert shapes_text(back) == [f"Shapes: an inner dimension of inputs 1 024 → 512 {words}"]


def test_a_larger_batch_of_the_same_sequences(tmp_path):
    def side(batch):
        return job(
            tmp_path,
            [[batch * 512, 4096]],
            [[batch, 512, 4096]],
            [[batch, 32, 512, 128]],
            [[4096, batch * 512], [batch * 512, 4096]],
        )

    (text,) = shapes_text(hd.compare(side(8), side(16)))
    words = "in 3 of 4 calls of operators, as if the batch size changed."
    assert text == f"Shapes: the first dimension of inputs 8 → 16 {words}"


def test_larger_images_are_no_longer_sequences(tmp_path):
    def side(size):
        return job(tmp_path, *[[[8, 3, size, size], [64, 3, 7, 7]], [[8, 64, size, size]]] * 2)

    assert shapes_text(hd.compare(side(224), side(448))) == []


def test_a_wider_model_is_no_other_batch(tmp_path):
    def side(width):
        return job(tmp_path, *[[[8, 512, width]], [[4096, width]]] * 2)

    assert shapes_text(hd.compare(side(1024), side(2048))) == []
