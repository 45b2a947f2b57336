"""Headlines of BytePS and MPI files, against the causes that generators put into them."""

import hta_widgets as hw
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.panels.headline import headline


def said(folder):
    found = headline(hw.load(folder, cache=False, progress=False))
    return found, str(found)


def test_the_slow_worker_is_named_with_all_of_its_gpus(tmp_path):
    write_byteps_job(tmp_path / "job", workers=2, local_ranks=2, servers=1, steps=2, slow_worker=1)
    found, text = said(tmp_path / "job")
    assert text.startswith("Worker 1 is last in 44 of 44 partitions and steps")
    assert found.findings[0].selection.ranks == (2, 3)


def test_the_slow_rank_is_the_one_with_least_time_in_mpi(tmp_path):
    write_mpi_job(tmp_path / "job", ranks=6, slow_rank=4, hosts=1, traces=False)
    found, text = said(tmp_path / "job")
    assert text.startswith("Rank 4 spends least time in MPI")
    assert "the other 5 wait for it" in text
    assert "Allreduce of 5–8\u2009B: 60\u2009% of calls" in text
    assert found.findings[0].selection.ranks == (4,)


def test_the_message_size_with_most_time_for_its_bytes_is_told(shared):
    """60 % of calls have 8 bytes, and 8.5 % of the time: the calls of 2 KiB cost the most."""
    _, text = said(shared / "traces/mpitrace/np16_all")
    assert "Allreduce of 1–2\u2009KiB: 5.0\u2009% of calls, 36\u2009% of Allreduce time" in text
    assert "0.02\u2009% of bytes" in text
    _, text = said(shared / "traces/mpitrace/np1_single")
    assert "Allreduce" not in text, "if times follow bytes, no size is named"


def test_waiting_for_the_root_is_not_waiting_in_queues(tmp_path):
    """The queue of a GPU that does not use the servers holds the root's PUSH and PULL."""
    write_byteps_job(tmp_path / "job", workers=2, local_ranks=2, servers=1, steps=2, slow_worker=1)
    for folder, begins in (
        ("0", "% of a gradient's time is waiting for the GPU that talks"),
        ("1", ""),
    ):
        _, text = said(tmp_path / "job" / "worker1" / "traces" / folder)
        assert begins in text
        assert " takes longest, " in text, "no headline is empty"
        assert "on worker" not in text, "there is one"
        assert hw.load(tmp_path / "job" / "worker1", cache=False)[0].worker == 1
    _, both = said(tmp_path / "job" / "worker1")
    assert both == text, "the root's figures equal the worker's"


def test_a_single_rank_is_not_compared_with_others(shared):
    _, text = said(shared / "traces/mpitrace/np1_single")
    assert text == "The rank spends 0\u2009% of its time in MPI, and waits for nobody."


def test_nobody_is_named_where_nobody_stands_out(tmp_path):
    write_mpi_job(tmp_path / "mpi", ranks=4, slow_rank=None, hosts=1, traces=False)
    write_byteps_job(tmp_path / "byteps", workers=2, servers=1, steps=2, slow_worker=None)
    for folder in ("mpi", "byteps"):
        found, text = said(tmp_path / folder)
        assert found.findings == []
        assert "least time" not in text
        assert "is last in" not in text
