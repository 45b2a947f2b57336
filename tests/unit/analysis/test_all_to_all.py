"""Bytes between ranks, from the splits of all-to-all collectives, calculated by hand."""

import pytest
from support.small import kernel, load

from hta_widgets.analysis import all_to_all_matrix, collectives, parallel_groups, traffic

#: Number of rows from each rank to each rank; a row has 16 elements of 2 bytes.
ROWS = [[1, 2, 3, 4], [0, 1, 0, 1], [5, 0, 0, 0], [1, 1, 1, 1]]


def all_to_all(rank, start=100, *, name="all_to_allv", **args):
    sent, received = ROWS[rank], [rows[rank] for rows in ROWS]
    stated = {
        "Collective name": name, "dtype": "BFloat16", "Group size": 4,
        "Process Group Name": "experts", "Process Group Ranks": "[0, 1, 2, 3]",
        "In msg nelems": 16 * sum(sent), "Out msg nelems": 16 * sum(received),
        "In split size": str(sent), "Out split size": str(received),
    }  # fmt: skip
    return kernel(start, start + 50, name="ncclDevKernel_SendRecv()", stream=20, **stated | args)


def matrix(frame):
    return frame.pivot(index="sender", columns="receiver", values="bytes").to_numpy().tolist()


def test_splits_are_rows_of_the_first_dimension(tmp_path):
    frame = all_to_all_matrix(load(tmp_path, *([all_to_all(rank)] for rank in range(4))))
    assert matrix(frame) == [[32 * rows for rows in sent] for sent in ROWS]
    assert set(frame["source"]) == {"sender"}
    assert frame["local"].sum() == 4
    assert frame.attrs["mismatches"] == frame.attrs["unknown"] == 0
    # Without copies to themselves, rank 0 receives 6 rows and the others 3, 4 and 5.
    assert frame.attrs["imbalance"] == 6 / 4.5
    assert frame["share"].iloc[:4].tolist() == [0.1, 0.2, 0.3, 0.4]


def test_nodes_add_up_the_ranks_on_them(tmp_path):
    traces = load(tmp_path, *([all_to_all(rank)] for rank in range(4)))
    frame = all_to_all_matrix(traces, by="node", gpus_per_node=2)
    assert matrix(frame) == [[32 * 4, 32 * 8], [32 * 7, 32 * 2]]
    assert frame.attrs["inter_node_bytes"] == 32 * 15
    assert frame["same_node"].tolist() == [True, False, False, True]
    assert all_to_all_matrix(traces).attrs["nodes"] == "assumed"


def test_a_rank_without_a_file_is_known_from_its_receivers(tmp_path):
    traces = load(tmp_path, *([all_to_all(rank)] for rank in range(3)))
    frame = all_to_all_matrix(traces)
    assert matrix(frame)[3][:3] == [32, 32, 32]
    assert frame.loc[frame["sender"] == 3, "source"].tolist() == ["receiver"] * 3


def test_equal_splits_differing_ranks_and_cut_lists_are_told_apart(tmp_path):
    equal = {"In split size": "[]", "Out split size": "[]", "In msg nelems": 40}
    even = [all_to_all(0, name="all_to_all", **equal | {"Out msg nelems": 40})]
    frame = all_to_all_matrix(load(tmp_path, even))
    assert frame.loc[frame["sender"] == 0, "bytes"].tolist() == [20, 20, 20, 20]
    assert set(frame["source"]) == {"equal split"}
    wrong = [all_to_all(0), all_to_all(1, **{"Out split size": "[9, 1, 0, 1]"})]
    assert all_to_all_matrix(load(tmp_path, *([each] for each in wrong))).attrs["mismatches"] > 0
    cut = {"In split size": "[1, ...]", "Out split size": "[1, ...]"}
    frame = all_to_all_matrix(load(tmp_path, [all_to_all(0, **cut)]))
    assert (len(frame), frame.attrs["unknown"]) == (0, 1)
    assert frame.attrs["imbalance"] is None
    assert frame.attrs["note"] == "no all-to-all records its sizes and splits"


@pytest.mark.parametrize("elements", [-5, 1 << 61, (1 << 63) - 1, 1 << 64])
def test_impossible_numbers_of_elements_are_unknown_sizes(tmp_path, elements):
    args = {"In msg nelems": elements, "Out msg nelems": elements, "Group size": 2}
    args |= {"Process Group Ranks": "[0, 1]", "In split size": "[1, 1]", "Out split size": "[1, 1]"}
    traces = load(tmp_path, *([all_to_all(rank, **args)] for rank in range(2)))
    matrix_frame = all_to_all_matrix(traces)
    assert (len(matrix_frame), matrix_frame.attrs["unknown"]) == (0, 2)
    assert collectives(traces)["size_bytes"].tolist() == [-1, -1]
    assert (
        traffic(traces)["bytes"].tolist() == parallel_groups(traces)["bytes"].tolist() == [-1, -1]
    )
