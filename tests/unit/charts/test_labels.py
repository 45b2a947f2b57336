"""Labels of rows that have the same short name."""

from hta_widgets.charts.data import told_apart

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<{}>, {}>(int)"


def test_labels_that_differ_stay():
    assert told_apart(["add", "mul"], ["k<add>", "k<mul>"], ["compute", "memory"]) == ["add", "mul"]


def test_kinds_tell_apart_first():
    labels = told_apart(["add"] * 3, ["aten::add", "add", "k<add>"], ["operator", "x", "compute"])
    assert labels == ["add (operator)", "add (x)", "add (compute)"]


def test_of_one_kind_the_first_word_that_differs_does():
    names = [ADD.format("float", 1), ADD.format("c10::Half", 1), ADD.format("float", 2)]
    labels = told_apart(["add"] * 3, names, ["compute"] * 3)
    assert labels == ["add (float, 1)", "add (Half)", "add (float, 2)"]


def test_a_kind_that_two_share_is_followed_by_a_word():
    labels = told_apart(["a"] * 3, ["a", "f<int>", "f<long>"], ["operator", "compute", "compute"])
    assert labels == ["a (operator)", "a (compute, int)", "a (compute, long)"]


def test_a_longer_name_says_what_it_has_more():
    assert told_apart(["a", "a"], ["f", "f<int>"]) == ["a", "a (int)"]


def test_what_no_short_word_tells_apart_is_numbered():
    long = ["x" * 60, "y" * 60, "z" * 60]
    assert told_apart(["a"] * 3, long) == ["a", "a (2)", "a (3)"]
    assert told_apart(["a", "a (2)", "a"], ["?", "b", "!"]) == ["a", "a (2)", "a (3)"]
    assert told_apart(["same"] * 2, ["same"] * 2) == ["same", "same (2)"]
    assert told_apart([], []) == []
