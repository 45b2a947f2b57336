"""Bytes within and between nodes, and shares of links, calculated by hand."""

import pytest
from support.small import call, event, kernel, load, nccl

from hta_widgets import analysis

A100 = {
    "id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_097_971_712, "numSms": 108,
    "computeMajor": 8, "computeMinor": 0, "warpSize": 32,
}  # fmt: skip


def args(name, elements, *, ranks=(0, 1, 2, 3), seq=1, **more):
    return {
        "Collective name": name, "dtype": "Float", "Group size": len(ranks), "Seq": seq,
        "Process Group Name": "0", "Process Group Ranks": str(list(ranks)),
        "In msg nelems": elements, "Out msg nelems": elements, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "gpus_per_node", "sent", "crossing"),
    [
        ("allreduce", 2, 600, 200),  # 2·400·3/4; 2·400·1/2 per node, by 2 ranks
        ("allreduce", 4, 600, 0),
        ("allgather", 2, 300, 100),
        ("reduce_scatter", 1, 300, 300),
        ("broadcast", 2, 300, 100),  # 400·1 in total, by 4 ranks
    ],
)
def test_the_least_bytes_of_a_collective(tmp_path, name, gpus_per_node, sent, crossing):
    jobs = [[nccl(100, 200 + rank, **args(name, 100))] for rank in range(4)]
    row = analysis.traffic(load(tmp_path, *jobs), gpus_per_node=gpus_per_node).iloc[3]
    assert (row["bytes"], row["inter_node_bytes"]) == (sent, crossing)
    assert row["intra_node_bytes"] == sent - crossing
    assert (row["bound"], row["nodes_from"], row["unknown"]) == ("lower", "given", 0)


def test_uneven_nodes_share_the_bytes_of_a_node_among_their_ranks(tmp_path):
    # Ranks 0 and 1 share a node, rank 2 is alone: 2·300·1/2 bytes leave each node.
    frame = analysis.traffic(
        load(tmp_path, *[[nccl(100, 200, **args("allreduce", 75, ranks=(0, 1, 2)))]] * 3),
        gpus_per_node=2,
    )
    assert frame["inter_node_bytes"].tolist() == [150, 150, 300]
    assert frame["bytes"].tolist() == [400, 400, 400]


def test_messages_count_for_their_sender_and_batches_by_their_records(tmp_path):
    pair = {"Src Rank": 0, "Dst Rank": 1}
    records = [
        event("cpu_op", "record_param_comms", 10 + at, 15 + at, pid=10, **args(name, size, **peers))
        for at, (name, size, peers) in enumerate(
            [("send", 5, {"Dst Rank": 3}), ("recv", 7, {"Src Rank": 3})]
        )
    ]
    batch = kernel(300, 400, name="ncclDevKernel_SendRecv()", launch=1)
    batch["args"] |= {key: args("", 0)[key] for key in ("Process Group Name", "Group size")}
    batch["args"] |= {"Process Group Ranks": "[0, 1, 2, 3]"}
    sends = [nccl(100, 200, **args("send", 100, **pair)), *records, call(20, 30, 1), batch]
    receives = [nccl(100, 200, **args("recv", 100, **pair))]
    frame = analysis.traffic(load(tmp_path, sends, receives), gpus_per_node=2)
    by_name = frame.set_index(["rank", "name"])["bytes"]
    assert by_name[0, "send"] == 400
    assert by_name[1, "recv"] == 0
    assert frame.set_index("rank").loc[0, "inter_node_bytes"].max() == 20
    assert set(frame["bound"]) == {"exact"}


def test_one_rank_has_a_lower_bound_of_its_bandwidth(tmp_path):
    # 2·3/4 of 400 000 bytes in 10 µs (including waits) is 60 of 300 GB/s.
    traces = load(tmp_path, [nccl(100, 10_100, **args("allreduce", 100_000))])
    traces[0].metadata["deviceProperties"] = [A100] * 4
    row = analysis.traffic(traces).iloc[0]
    assert (row["busbw_gb_s"], row["link_share"]) == (60, 0.2)
    assert (row["link"], row["nodes_from"], row["peak_certainty"]) == (
        "NVLink",
        "assumed",
        "certain",
    )


def test_groups_of_several_nodes_have_no_share_of_a_link(tmp_path):
    jobs = [[nccl(100, 10_100, **args("allreduce", 100_000, ranks=(0, 1)))]] * 2
    for devices, share in ((2, 400 / 10 / 300), (1, None)):
        traces = load(tmp_path, *jobs)
        for trace in traces.values():
            trace.metadata["deviceProperties"] = [A100] * devices
        frame = analysis.collectives(traces)
        assert (
            frame["link_share"].isna().all()
            if share is None
            else (frame["link_share"].tolist() == pytest.approx([share] * 2))
        )
        assert frame.attrs["links"][0]["link"] == "NVLink"


def test_unknown_sizes_are_counted_apart(tmp_path):
    frame = analysis.traffic(load(tmp_path, [nccl(1, 2), nccl(3, 9, **args("allreduce", 100))]))
    assert sorted(frame["unknown"]) == [0, 1]
    assert frame.set_index("unknown").loc[1, ["bytes", "inter_node_bytes"]].tolist() == [-1, -1]
    assert frame.attrs["unknown"] == 1
