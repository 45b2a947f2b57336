"""Kernels, copies and fills of the made-up job, with their times on an A100."""

from __future__ import annotations

from dataclasses import dataclass

_FLOPS_PER_NS = 190_000.0  # matrix products in bf16 at 190 of 312 TFLOP/s
_BYTES_PER_NS = 1_350.0  # high-bandwidth memory
_PCIE_BYTES_PER_NS = 22.0
_NVLINK_BYTES_PER_NS = 230.0
_MULTIPROCESSORS = 108
#: Layer norm kernels, for each part of the backward pass.
_LAYER_NORM = {
    "": "vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*,"
    " c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
    "input": "layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>(c10::BFloat16 const*,"
    " c10::BFloat16 const*, float const*, float const*, c10::BFloat16 const*, c10::BFloat16*, int)",
    "gamma": "GammaBetaBackwardCUDAKernel<c10::BFloat16, float>(long, long, c10::BFloat16 const*,"
    " c10::BFloat16 const*, float const*, float const*, c10::BFloat16*, c10::BFloat16*)",
    "fused": "layer_norm_backward_fused_kernel<c10::BFloat16, float>(c10::BFloat16 const*,"
    " c10::BFloat16 const*, float const*, float const*, c10::BFloat16 const*, c10::BFloat16*,"
    " c10::BFloat16*, int)",
}


@dataclass(frozen=True, slots=True)
class DeviceTask:
    """A kernel, copy or fill to run on a device stream."""

    name: str
    category: str  # "kernel", "gpu_memcpy" or "gpu_memset"
    base_ns: float  # duration at speed 1 without noise; for collectives, the transfer time
    details: str  # the args that do not vary, as JSON members


def _kernel(name: str, base_ns: float, grid: tuple[int, int, int], threads: int) -> DeviceTask:
    blocks = grid[0] * grid[1] * grid[2] / _MULTIPROCESSORS
    warps = blocks * threads / 32
    occupancy = min(100, round(warps / 64 * 100))
    details = (
        f'"registers per thread": {32 + threads % 97}, "shared memory": {threads * 16 % 49152},\n'
        f'      "blocks per SM": {blocks:.6f}, "warps per SM": {warps:.6f},\n'
        f'      "grid": [{grid[0]}, {grid[1]}, {grid[2]}], "block": [{threads}, 1, 1],\n'
        f'      "est. achieved occupancy %": {occupancy}'
    )
    return DeviceTask(name, "kernel", base_ns, details)


def gemm(m: int, n: int, k: int, layout: str = "tn") -> DeviceTask:
    """Return a bf16 matrix product of shapes (m, k) and (k, n)."""
    tile = (256, 128) if m * n >= 1 << 22 else (128, 64)
    name = f"ampere_bf16_s16816gemm_bf16_{tile[0]}x{tile[1]}_ldg8_f2f_stages_64x3_{layout}"
    grid = (-(-m // tile[0]), -(-n // tile[1]), 1)
    return _kernel(name, 4_000 + 2.0 * m * n * k / _FLOPS_PER_NS, grid, 256)


def elementwise(functor: str, size_bytes: int) -> DeviceTask:
    """Return an elementwise kernel that reads and writes `size_bytes` in total."""
    name = (
        f"void at::native::vectorized_elementwise_kernel<4, {functor}, at::detail::Array<char*, 3>"
        f" >(int, {functor}, at::detail::Array<char*, 3>)"
    )
    return _kernel(name, 1_600 + size_bytes / _BYTES_PER_NS, (max(1, size_bytes >> 12), 1, 1), 128)


def reduce(operation: str, size_bytes: int) -> DeviceTask:
    """Return a reduction that reads `size_bytes`."""
    name = (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::"
        f"func_wrapper_t<float, at::native::{operation}<float, float, float, float> >, unsigned"
        " int, float, 4> >(at::native::ReduceOp<float, at::native::func_wrapper_t<float,"
        f" at::native::{operation}<float, float, float, float> >, unsigned int, float, 4>)"
    )
    return _kernel(name, 3_000 + size_bytes / _BYTES_PER_NS, (max(1, size_bytes >> 15), 1, 1), 512)


def layer_norm(rows: int, width: int, *, backward: str = "") -> DeviceTask:
    """Return a layer norm. `backward` is "", "input", "gamma" or, for both gradients, "fused"."""
    name = f"void at::native::(anonymous namespace)::{_LAYER_NORM[backward]}"
    passes = 1.9 if backward == "fused" else 1.4
    base_ns = 2_500 + passes * (rows * width * 4) / _BYTES_PER_NS
    return _kernel(name, base_ns, (rows, 1, 1), 128)


def flash_attention(heads: int, tokens: int, width: int, *, backward: bool = False) -> DeviceTask:
    """Return a flash attention kernel with `heads` heads on sequences of `tokens` tokens."""
    way, sizes = ("bwd", "8, 4, 4, 4, false, false") if backward else ("fwd", "4, false, false")
    traits = f"Flash_{way}_kernel_traits<64, 128, 128, {sizes}, 0, cutlass::bfloat16_t>"
    kernel = "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel" if backward else "flash_fwd_kernel"
    name = f"void pytorch_flash::{kernel}<pytorch_flash::{traits}, false, true, false, true, true>"
    flops = 4.0 * heads * tokens * tokens * width * (2.5 if backward else 1.0) * 0.5
    base_ns = 5_000 + flops / (_FLOPS_PER_NS * 0.6)
    name += f"(pytorch_flash::Flash_{way}_params)"
    return _kernel(name, base_ns, (tokens // 128, 1, heads), 128)


def softmax(rows: int, width: int, *, backward: bool = False) -> DeviceTask:
    """Return a row-wise softmax, as in the loss."""
    direction = "Backward" if backward else "Forward"
    name = (
        f"void at::native::(anonymous namespace)::cunn_SoftMax{direction}<4, float, float, float,"
        f" at::native::(anonymous namespace)::LogSoftMax{direction}Epilogue>"
        "(float*, float const*, int)"
    )
    return _kernel(name, 4_000 + rows * width * 4 / _BYTES_PER_NS, (rows, 1, 1), 1024)


def multi_tensor(functor: str, size_bytes: int) -> DeviceTask:
    """Return a fused optimizer kernel that updates many tensors."""
    name = (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous"
        f" namespace)::FusedOptimizerTensorListMetadata<4>, {functor}, float*, double>(at::native::"
        f"(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, {functor}, float*, double)"
    )
    return _kernel(name, 3_000 + size_bytes / _BYTES_PER_NS, (320, 1, 1), 512)


def nccl(operation: str, size_bytes: int, ranks: int) -> DeviceTask:
    """Return a ring collective. Its duration is the transfer time after the last arrival."""
    name = f"ncclDevKernel_{operation}(ncclDevKernelArgsStorage<4096ul>)"
    share = (2.0 if operation.startswith("AllReduce") else 1.0) * (ranks - 1) / ranks
    return _kernel(name, 14_000 + share * size_bytes / _NVLINK_BYTES_PER_NS, (24, 1, 1), 544)


def copy(direction: str, size_bytes: int) -> DeviceTask:
    """Return a copy in a direction such as "HtoD (Pinned -> Device)"."""
    speed = _BYTES_PER_NS / 2 if direction.startswith("DtoD") else _PCIE_BYTES_PER_NS
    return _move(f"Memcpy {direction}", "gpu_memcpy", size_bytes, 1_200 + size_bytes / speed)


def memset(size_bytes: int) -> DeviceTask:
    """Return a fill of device memory."""
    return _move("Memset (Device)", "gpu_memset", size_bytes, 1_100 + size_bytes / _BYTES_PER_NS)


def _move(name: str, category: str, size_bytes: int, base_ns: float) -> DeviceTask:
    rate = size_bytes / base_ns  # B/ns is GB/s
    details = f'"bytes": {size_bytes}, "memory bandwidth (GB/s)": {rate:.6f}'
    return DeviceTask(name, category, base_ns, details)


CAST = "at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}"
SCALE = (
    "at::native::AUnaryFunctor<float, float, float,"
    " at::native::binary_internal::MulFunctor<float> >"
)
