"""Which args HTA knows by name, and the sets of them that it offers."""

from __future__ import annotations

from hta_widgets.compat.configs.default_values import AttributeSpec, ValueType

__all__ = ["AVAILABLE_ARGS", "args_named"]

_NUMBER, _FRACTION, _WORD, _OTHER = (
    (ValueType.Int, -1),
    (ValueType.Float, 0.0),
    (ValueType.String, ""),
    (ValueType.Object, "[]"),
)
_UNKNOWN = (ValueType.Object, "-1")
_COUNT = (ValueType.Int, 0)

#: HTA's key: the column, the key in the file, the kind of value and its default
_KNOWN = {
    "index::ev_idx": ("ev_idx", "Ev Idx", _NUMBER),
    "index::external_id": ("external_id", "External id", _NUMBER),
    "index::python_id": ("python_id", "Python id", _NUMBER),
    "index::python_parent_id": ("python_parent_id", "Python parent id", _NUMBER),
    "cpu_op::concrete_inputs": ("concrete_inputs", "Concrete Inputs", _OTHER),
    "cpu_op::fwd_thread": ("fwd_thread_id", "Fwd thread id", _NUMBER),
    "cpu_op::input_dims": ("input_dims", "Input Dims", _UNKNOWN),
    "cpu_op::input_type": ("input_type", "Input type", _UNKNOWN),
    "cpu_op::input_strides": ("input_strides", "Input Strides", _UNKNOWN),
    "cpu_op::sequence_number": ("sequence", "Sequence number", _NUMBER),
    "cpu_op::kernel_backend": ("kernel_backend", "kernel_backend", _WORD),
    "cpu_op::kernel_hash": ("kernel_hash", "kernel_hash", _WORD),
    "correlation::cbid": ("cbid", "cbid", _NUMBER),
    "correlation::cpu_gpu": ("correlation", "correlation", _NUMBER),
    "sm::blocks": ("blocks_per_sm", "blocks per SM", _OTHER),
    "sm::occupancy": ("est_occupancy", "est. achieved occupancy %", _NUMBER),
    "sm::warps": ("warps_per_sm", "warps per SM", _FRACTION),
    "data::bytes": ("bytes", "bytes", _NUMBER),
    "data::bandwidth": ("memory_bw_gbps", "memory bandwidth (GB/s)", _FRACTION),
    "cuda::context": ("context", "context", _NUMBER),
    "cuda::device": ("device", "device", _NUMBER),
    "cuda::stream": ("stream", "stream", _NUMBER),
    "kernel::queued": ("queued", "queued", _NUMBER),
    "kernel::shared_memory": ("shared_memory", "shared memory", _NUMBER),
    "threads::block": ("block", "block", _OTHER),
    "threads::grid": ("grid", "grid", _OTHER),
    "threads::registers": ("registers_per_thread", "registers per thread", _NUMBER),
    "cuda_sync::stream": ("wait_on_stream", "wait_on_stream", _NUMBER),
    "cuda_sync::event": (
        "wait_on_cuda_event_record_corr_id",
        "wait_on_cuda_event_record_corr_id",
        _NUMBER,
    ),
    "info::finished": ("finished", "finished", _WORD),
    "info::labels": ("labels", "labels", _WORD),
    "info::name": ("name", "name", _NUMBER),
    "info::op_count": ("op_count", "Op count", _NUMBER),
    "info::sort_index": ("sort_index", "sort_index", _NUMBER),
    "nccl::collective_name": ("collective_name", "Collective name", _WORD),
    "nccl::in_msg_nelems": ("in_msg_nelems", "In msg nelems", _COUNT),
    "nccl::out_msg_nelems": ("out_msg_nelems", "Out msg nelems", _COUNT),
    "nccl::in_msg_size": ("in_msg_size", "In msg size", _COUNT),
    "nccl::out_msg_size": ("out_msg_size", "Out msg size", _COUNT),
    "nccl::group_size": ("group_size", "Group size", _COUNT),
    "nccl::dtype": ("msg_dtype", "dtype", _WORD),
    "nccl::in_split_size": ("in_split_size", "In split size", _OTHER),
    "nccl::out_split_size": ("out_split_size", "Out split size", _OTHER),
    "nccl::input_tensors_start": ("input_tensors_start", "Input Tensors start", _OTHER),
    "nccl::output_tensors_start": ("output_tensors_start", "Output Tensors start", _OTHER),
    "nccl::process_group_name": ("process_group_name", "Process Group Name", _WORD),
    "nccl::process_group_desc": ("process_group_desc", "Process Group Description", _WORD),
    "nccl::process_group_ranks": ("process_group_ranks", "Process Group Ranks", _OTHER),
    "nccl::rank": ("process_rank", "Rank", _NUMBER),
    "nccl::seq": ("seq_num", "Seq", _NUMBER),
    "inference::batch_size": ("batch_size", "batchSize", _NUMBER),
    "inference::batch_id": ("batch_id", "batchId", _WORD),
}

#: Every arg that HTA knows, by its key.
AVAILABLE_ARGS: dict[str, AttributeSpec] = {
    key: AttributeSpec(column, raw, *value) for key, (column, raw, value) in _KNOWN.items()
}


def args_named(*keys: str) -> list[AttributeSpec]:
    """Return the args under these keys; a key that ends in ``::`` stands for all below it."""
    return [
        spec
        for asked in keys
        for key, spec in AVAILABLE_ARGS.items()
        if key == asked or (asked.endswith("::") and key.startswith(asked))
    ]
