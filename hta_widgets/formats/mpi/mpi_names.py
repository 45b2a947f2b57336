"""The MPI routines that mpitrace knows, by the numbers that it gives them."""

from __future__ import annotations

__all__ = [
    "COLLECTIVES",
    "IO_FROM",
    "MPI_CATEGORY",
    "MPI_IO_CATEGORY",
    "ROOT_RECEIVES",
    "ROOT_SENDS",
    "ROUTINES",
    "bin_bounds",
    "is_io",
    "size_class",
]

#: Of MPI calls as events, also in trace files that were exported from time lines.
MPI_CATEGORY = "mpi"
MPI_IO_CATEGORY = "mpi_io"


def _names(text: str) -> tuple[str, ...]:
    return tuple(f"MPI_{name}" for name in text.split())


#: Name of each routine by its number; those that work on files come last.
ROUTINES = _names(
    """
    Comm_rank Comm_size Send Ssend Rsend Bsend Isend Issend Irsend Ibsend
    Send_init Ssend_init Rsend_init Bsend_init Recv_init Recv Irecv Sendrecv
    Sendrecv_replace Buffer_attach Buffer_detach Probe Iprobe Test Testany Testall Testsome
    Wait Waitany Waitall Waitsome Start Startall Bcast Ibcast
    Barrier Ibarrier Reduce Ireduce Allreduce Iallreduce Reduce_scatter Ireduce_scatter
    Reduce_scatter_block Ireduce_scatter_block Gather Igather Gatherv Igatherv
    Scan Iscan Exscan Iexscan Allgather Neighbor_allgather Iallgather Ineighbor_allgather
    Allgatherv Neighbor_allgatherv Iallgatherv Ineighbor_allgatherv Scatter Iscatter
    Scatterv Iscatterv Alltoall Neighbor_alltoall Ialltoall Ineighbor_alltoall
    Alltoallv Neighbor_alltoallv Ialltoallv Ineighbor_alltoallv Alltoallw
    Neighbor_alltoallw Ialltoallw Ineighbor_alltoallw Accumulate Fetch_and_op Get
    Get_accumulate Put Raccumulate Rget Rget_accumulate Rput Win_allocate
    Win_allocate_shared Win_attach Win_complete Win_create Win_create_dynamic Win_detach
    Win_fence Win_flush Win_flush_all Win_flush_local Win_flush_local_all Win_free Win_lock
    Win_lock_all Win_post Win_start Win_sync Win_test Win_unlock Win_unlock_all Win_wait
    File_close File_delete File_iread File_iread_at File_iread_shared File_iwrite
    File_iwrite_at File_iwrite_shared File_open File_preallocate File_read File_read_all
    File_read_all_begin File_read_all_end File_read_at File_read_at_all
    File_read_at_all_begin File_read_at_all_end File_read_ordered File_read_ordered_begin
    File_read_ordered_end File_read_shared File_seek File_seek_shared File_set_view
    File_sync File_write File_write_all File_write_all_begin File_write_all_end
    File_write_at File_write_at_all File_write_at_all_begin File_write_at_all_end
    File_write_ordered File_write_ordered_begin File_write_ordered_end File_write_shared
    """
)

#: From this number on routines work on files.
IO_FROM = ROUTINES.index("MPI_File_close")

#: Rooted collectives by what their root does, of which time lines record the root.
ROOT_SENDS = frozenset(_names("Bcast Ibcast Scatter Iscatter Scatterv Iscatterv"))
ROOT_RECEIVES = frozenset(_names("Reduce Ireduce Gather Igather Gatherv Igatherv"))

#: Calls in which all ranks of a communicator meet before they go on. Those that return at once
#: (I…) and those among neighbours are none.
COLLECTIVES = frozenset(
    _names(
        """
        Bcast Barrier Reduce Allreduce Reduce_scatter Reduce_scatter_block Gather Gatherv Scan
        Exscan Allgather Allgatherv Scatter Scatterv Alltoall Alltoallv Alltoallw
        """
    )
)

_LAST_BIN = 30


def is_io(routine: str) -> bool:
    """Whether a routine works on files; its time is not communication."""
    return routine.startswith("MPI_File_")


def bin_bounds(avg_bytes: float) -> tuple[int, int]:
    """Return the smallest and the largest size of the bin that an average lies in.

    Profiles do not print bounds. Sizes are binned by powers of two: 0, 1-4, 5-8, 9-16 …

    Examples
    --------
    >>> bin_bounds(8.0), bin_bounds(0.0), bin_bounds(4719155.9)
    ((5, 8), (0, 0), (4194305, 8388608))
    """
    if not avg_bytes > 0:
        return 0, 0
    low, high = 1, 4
    # Averages are printed to one digit.
    while high < avg_bytes - 0.05 and high < 4 << (_LAST_BIN - 1):
        low, high = high + 1, high * 2
    return low, min(high, (1 << 31) - 1)


def size_class(size_bytes: float) -> str:
    """Return ``small`` (up to 8 bytes), ``medium`` (up to 64 KiB) or ``large``."""
    return "small" if size_bytes <= 8 else "medium" if size_bytes <= 1 << 16 else "large"
