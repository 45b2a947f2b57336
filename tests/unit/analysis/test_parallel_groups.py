"""Process groups and what they are for, on headers and kernels written out here."""

import json

import pytest
from support.small import ORIGIN, kernel, load, nccl

import hta_widgets as hw
from hta_widgets.analysis import parallel_groups
from hta_widgets.analysis.collectives import stage_of
from hta_widgets.demo.job import write_demo


def comm(start, end, name, group, ranks, *, collective="allreduce", count=4, **args):
    return kernel(
        start, end, name="ncclDevKernel_x", stream=20,
        **{
            "Collective name": collective, "Process Group Name": group,
            "Process Group Description": name, "Process Group Ranks": str(list(ranks)),
            "Group size": len(ranks), "In msg nelems": count, "Out msg nelems": count,
            "dtype": "Float", **args,
        },
    )  # fmt: skip


def write(folder, world, ranks):
    """Write files of ranks, {rank: (pg_config, events)}."""
    paths = {}
    for rank, (config, events) in ranks.items():
        path = folder / f"rank-{rank}.json"
        info = {"rank": rank, "world_size": world, "pg_config": config}
        path.write_text(json.dumps({"distributedInfo": info, "traceEvents": [ORIGIN, *events]}))
        paths[rank] = str(path)
    return hw.load(paths, cache=False, progress=False)


def entry(name, description, ranks):
    return {"pg_name": name, "pg_desc": description, "pg_size": len(ranks), "ranks": list(ranks)}


def kinds(frame):
    return {
        group: (str(kind), bool(guessed))
        for group, kind, guessed in zip(
            frame["group"], frame["kind"], frame["guessed"], strict=True
        )
    }


@pytest.mark.parametrize(
    ("description", "kind"),
    [
        ("mesh_tp", "tensor"), ("TENSOR_MODEL_PARALLEL_GROUP", "tensor"), ("dp", "data"),
        ("mesh_dp_shard", "data"), ("EXPERT_DATA_PARALLEL_GROUP", "data"), ("pp", "pipeline"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"), ("MODEL_PARALLEL_GROUP", "tensor"),
        ("EXPERT_MODEL_PARALLEL_GROUP", "expert"), ("mesh_cp", "context"), ("ep_group", "expert"),
    ],
)  # fmt: skip
def test_descriptions_are_taken_at_their_word(tmp_path, description, kind):
    traces = write(tmp_path, 8, {0: ([entry("3", description, [0, 5])], [])})
    assert kinds(parallel_groups(traces)) == {"3": (kind, False)}


@pytest.mark.parametrize(
    ("ranks", "collective", "kind"),
    [
        ([0, 1], "allreduce", "tensor"),
        ([0, 2, 4, 6], "allreduce", "data"),
        ([0, 1, 3], "allreduce", "unknown"),
        ([0, 4], "all_to_all", "expert"),
        ([0, 4], "send", "pipeline"),
        ([0], "allreduce", "unknown"),
    ],
)
@pytest.mark.parametrize("description", ["undefined", "", "default_pg"])
def test_without_words_the_pattern_is_guessed(tmp_path, description, ranks, collective, kind):
    peers = {"Dst Rank": ranks[-1]} if collective == "send" else {}
    events = [comm(10, 30, description, "7", ranks, collective=collective, **peers)]
    traces = write(tmp_path, 8, {0: ([], events)})
    assert kinds(parallel_groups(traces)) == {"7": (kind, True)}


def test_a_group_of_everyone_is_no_guess(tmp_path):
    config = [entry("0", "undefined", range(4))]
    frame = parallel_groups(write(tmp_path, 4, {2: (config, [])}))
    assert kinds(frame) == {"0": ("all", False)}
    row = frame.iloc[0]
    assert (row["rank"], row["ranks"], row["position"], row["size"]) == (2, "0-3", 2, 4)
    assert (row["collectives"], row["time_ns"], row["bytes"]) == (0, 0, -1)
    assert frame.attrs["note"] == "files of 3 ranks are missing"


def test_counts_times_and_bytes_by_hand(tmp_path):
    config = [entry("0", "default_pg", range(2)), entry("5", "pp", [0, 1])]
    events = [
        comm(100, 200, "default_pg", "0", [0, 1], count=1000),
        comm(150, 260, "default_pg", "0", [0, 1], count=10, collective="broadcast"),
        comm(300, 340, "default_pg", "0", [0, 1], count=10),
    ]
    traces = write(tmp_path, 2, dict.fromkeys(range(2), (config, events)))
    frame = parallel_groups(traces)
    assert frame[["group", "rank"]].to_numpy().tolist() == [["0", 0], ["0", 1], ["5", 0], ["5", 1]]
    first = frame.iloc[0]
    assert first["operations"] == "all_reduce 2, broadcast 1"
    # 100 to 260 and 300 to 340; a float has 4 bytes.
    assert (first["collectives"], first["time_ns"], first["bytes"]) == (3, 200, 4080)
    assert frame["collectives"].tolist() == [3, 3, 0, 0]
    assert stage_of(traces) == {0: 0, 1: 1}
    cut = parallel_groups(traces, window=(180, 320), ranks=[1])
    assert cut["rank"].tolist() == [1, 1]
    assert (cut["collectives"][0], cut["time_ns"][0]) == (3, 100)


def test_kernels_that_name_no_group_leave_it_open(tmp_path):
    frame = parallel_groups(load(tmp_path, [nccl(10, 20)], [nccl(11, 20)]))
    assert kinds(frame) == {"stream 20": ("unknown", True)}
    assert frame["ranks"].tolist() == ["", ""]
    assert frame["position"].tolist() == [-1, -1]


def test_the_demo_job(tmp_path):
    truth = write_demo(
        tmp_path / "job", ranks=8, steps=1, strided=True, missing=[3], events_per_step=600
    )
    frame = parallel_groups(hw.load(tmp_path / "job", cache=False, progress=False))
    found = {
        group: (str(kind), ranks)
        for group, kind, ranks in zip(frame["group"], frame["kind"], frame["ranks"], strict=True)
    }
    purpose = {"default_pg": "all", "mesh_dp": "data", "mesh_tp": "tensor"}
    assert found.keys() - truth["groups"].keys() == {"0"}
    for name, group in truth["groups"].items():
        listed = ", ".join(map(str, group["ranks"]))
        assert found[name] == (purpose[group["description"]], listed)
    assert 3 not in set(frame["rank"])
    assert not frame["guessed"].any()


def test_nothing_known_is_told_in_words(tmp_path):
    traces = load(tmp_path, [kernel(1, 2)])
    frame = parallel_groups(traces)
    assert frame.empty
    assert frame.attrs["note"] == "neither headers nor communication kernels tell of process groups"
    some = parallel_groups(load(tmp_path, [nccl(10, 20)]))
    assert frame.dtypes.to_dict() == some.dtypes.to_dict()
    assert parallel_groups(traces, ranks=[]).attrs["note"] == "no ranks are selected"
