"""Kinds of events: real names from many libraries, and rules that users add."""

import numpy as np
import pytest
from support import small
from support.made_ranks import kernel, op

import hta_widgets as hw
from hta_widgets import taxonomy
from hta_widgets.errors import TraceError
from hta_widgets.live.job import TileEngine
from hta_widgets.taxonomy import KINDS

COMMUNICATION = [
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_Generic_1(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclSymDevKernel_AllReduce_AGxLLMC_R(ncclSymDevArgs)",
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
    "nccldevkernel_allgather_ring_ll",
    "void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)",
    "rccl_something",
    "hcclAllReduce",
    "hcom_allReduce__123_0_1",
    "collective_subgraph_execution",
    "oneccl_allreduce_sycl",
    "ccl::v1::reduce_scatter_kernel",
    "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
    "mscclKernel_Sum_half_Simple_false",
    "void mscclpp::allreduce7<float>(float*)",
    "void nvshmemi_transfer_rma_nbi<(threadgroup_t)2>",
    "void rocshmem::barrier_all()",
    "void deep_ep::internode::dispatch<false, 8, true, 4096>(int4*, float*)",
    "void deep_ep::intranode::combine<nv_bfloat16, 8, 768, 4096>(nv_bfloat16*)",
    "void deep_ep::internode_ll::combine<7168>(void*)",
    "void dpsk::ep::internode::notify_dispatch<4>(int const*)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    "void sglang::cross_device_reduce_2stage<half, 4>(sglang::RankData*)",
    "void aiter::reduce_scatter_cross_device_store<float>(float*)",
    "multimem_all_reduce_kernel<c10::BFloat16, 16>",
    "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<float>(float*)",
    "void c10d::symmetric_memory::barrier_kernel<true>(unsigned int**)",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8, true>(AllReduceParams)",
    "void tensorrt_llm::kernels::twoShotAllReduceKernel<half, 8>(AllReduceParams)",
    "void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport<half>(X)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_twoshot_sync<half>(X)",
    "void quickreduce::allreduce_prototype_twoshot<Q4>(half*)",
    "userbuffers_fp16_sum_inplace_gpu_rw_ag",
    "all-reduce.17",
    "reduce-scatter-start.2",
    "collective-permute.5",
    "send.2",
    "recv-done.17",
    "mcclDevKernel_Broadcast_RING_LL(mcclDevKernelArgsStorage<4096ul>)",
    "bkcl_kernel_send_recv",
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
    "ncclKernelAllGatherCtranDirect(int*, CtranAlgoDeviceState*)",
    "_Z40ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "nvshmemi_entrypoint_barrier",
    "oneccl_allreduce_pcie",
    "void deep_ep::internode_ll::dispatch<false, 3, 10, 7168>(void*, float*, int*, long*)",
    "_ZN7deep_ep9intranode8dispatchILi8ELi768ELi4096EEEvP4int4Pf",
    "void hybrid_ep::dispatch_kernel<hybrid_ep::inter_node_group<4>>(dispatch_kernel_param_t)",
    "void tensorrt_llm::kernels::mnnvl_throughput::moeA2ADispatchKernel<WarpPolicy, 8>(X)",
    "void tensorrt_llm::kernels::mnnvl_throughput::moeA2APrepareDispatchKernel(int*, int*)",
    "void moeA2ACombineKernel<__nv_bfloat16, BlockPolicy, 8>(CombineKernelPointers)",
    "void tensorrt_llm::kernels::moe_comm::fusedMoeCommKernel<2>(X)",
    "void moe_comm::moeAllToAllKernel<true, false>(MoeEpWorldInfo)",
    "void a2a_dispatch_send_kernel<true, 16, Fixed<7168>>(unsigned long)",
    "void pplx::a2a_combine_recv_kernel<c10::BFloat16>(unsigned long)",
    "EpDispatchInterNodeKernelV1_bf16",
    "void mori::moe::EpCombineIntraNodeKernel<hip_bfloat16>(EpDispatchCombineArgs)",
    "void turbomind::comm::Allreduce_NVLS_V2<half, 8>(half*)",
    "void aiter::cross_device_reduce_1stage_naive<hip_bfloat16, 8>(aiter::RankData*)",
]

COMPUTE = [
    "send_tokens_kernel",
    "receive",
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(Params)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
    "Cijk_Ailk_Bjlk_SB_MT64x16x16_MI16x16x1_SN",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 1, 128>",
    "void softmax_warp_allreduce<float>(float*)",
    "void blockAllReduceSum<float, 256>(float*)",
    "block_all_reduce_kernel",
    "void recat_copy_async_kernel<float>(long const*)",
    "void cub::DeviceScanKernel<cub::AgentScanPolicy<128>>(int)",
    "triton_poi_fused_add_cos_sin_0",
    "void cudnn::cnn::wgrad_alg0_engine_dma<float>(float*)",
    "void gather_kernel<float>(float*)",
    "SyncBatchNormForward",
    "pe_exe",
    # Names that contain words of other kinds.
    "void at::native::batch_norm_collect_statistics_channels_last_kernel<SyncBatchNorm>(float)",
    "void apex::welford_kernel_parallel_SyncBatchNorm<float>(float*)",
    "void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)",
    "void at::native::(anonymous namespace)::batched_memcpy_like_kernel<float>(float*)",
    "void cutlass::device_kernel<sm90_tma_warpspecialized_dma_epilogue>(Params)",
    "dmatmul_kernel",
    "dma_engine_gemm_kernel",
    "triton_poi_fused_all_gather_into_tensor_wait_tensor_1",
    "triton_red_fused__to_copy_add_all_reduce_mean_3",
    "triton_fused_all_reduce_0",
    "triton_per_fused_native_layer_norm_reduce_scatter_tensor_0",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, NormTwoOps<float>>>(R)",
    "void splitKreduce_kernel<32, 16, int, float, float, float>(cublasSplitKParams<float>)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 4, long>(int, long)",
    "void cub::DeviceReduceByKeyKernel<cub::DispatchReduceByKey<long*, long*>>(long*)",
    "void moe_permute_topK_kernel<__nv_bfloat16, 8>(int)",
    "fused_moe_common_kernel",
    "void vllm::moe::topk_dispatch<float>(float*)",
    "step_dispatch_kernel",
    "cluster_allreduce_softmax",
    "shfl_all_reduce_sum",
    "void c10d::checkForNaN<float>(float*, unsigned long)",
]

MEMORY = [
    "infeed.3",
    "outfeed",
    "Memcpy HtoD (Pageable -> Device)",
    "Memset (Device)",
    "hipMemcpyDtoH",
    "CopyHostToDevice",
    "__amd_rocclr_copyBuffer",
    "__amd_rocclr_fillBufferAligned",
    "dma_request",
    "dma",
    "__amd_rocclr_fillBufferAligned.kd",
    "Memcpy PtoP (Device -> Device)",
    "Memset (Unknown)",
    "hipMemset",
    "MEMORY_COPY_HOST_TO_DEVICE",
    "FillBuffer",
    "zeCommandListAppendMemoryCopy(M2D)",
    "zeCommandListAppendMemoryFill(D)",
    "aclrtMemcpyAsync",
]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("communication", name) for name in COMMUNICATION),
        *(("compute", name) for name in COMPUTE),
        *(("memory", name) for name in MEMORY),
    ],
)
def test_kernels_by_name(kind, name):
    assert taxonomy.kind_of("kernel", name) == kind


@pytest.mark.parametrize(
    ("category", "name", "kind"),
    [
        ("gpu_memcpy", "anything", "memory"),
        ("gpu_memset", "anything", "memory"),
        ("Memcpy", "Memcpy DtoD", "memory"),
        ("cuda_sync", "Stream Wait Event", "sync"),
        ("cuda_sync", "ncclKernel", "sync"),
        ("kernel", "Stream Sync", "sync"),
        ("mtia_ccp_events", "event_wait", "sync"),
        ("mtia_ccp_events", "merge", "compute"),
        ("mtia_ccp_events", "dma_any_thing", "memory"),
        ("kernel", "__amd_rocclr_streamOpsWait", "sync"),
        ("kernel", "nccl:all_reduce", "communication"),
        ("cuda_event", "Event Record", "sync"),
        ("cuda_runtime", "cudaGraphLaunch", "cpu"),
        ("cuda_driver", "cuGraphLaunch", "cpu"),
        ("hip_runtime", "hipGraphLaunch", "cpu"),
        ("xpu_runtime", "zeCommandListAppendMemoryCopy", "cpu"),
        ("privateuse1_runtime", "aclrtMemcpyAsync", "cpu"),
        ("cpu_op", "gloo:all_reduce", "annotation"),
        ("cpu_op", "record_param_comms", "cpu"),
        ("user_annotation", "nccl:all_reduce", "annotation"),
        ("user_annotation", "ProfilerStep#3", "annotation"),
        ("gpu_user_annotation", "nccl:all_reduce", "annotation"),
        ("cpu_op", "nccl:broadcast", "annotation"),
        ("cpu_op", "c10d::allreduce_", "cpu"),
        ("cpu_op", "triton_poi_fused_add", "cpu"),
        ("cpu_op", "ncclDevKernel_AllReduce", "cpu"),
        ("Operator", "aten::add", "cpu"),
        ("python_function", "torch/nn/modules/module.py(1501): _call_impl", "cpu"),
        ("cuda_runtime", "cudaMemcpyAsync", "cpu"),
        ("Runtime", "cudaLaunchKernel", "cpu"),
        ("cuda_driver", "cuLaunchKernel", "cpu"),
        ("mtia_runtime", "recordEvent", "cpu"),
        ("overhead", "Buffer Flush", "cpu"),
        ("Trace", "PyTorch Profiler (0)", "other"),
        ("cuda_profiler_range", "void at::native::kernel", "other"),
        ("", "anything", "other"),
        ("kernels", "ncclKernel", "other"),
    ],
)
def test_the_category_decides_first(category, name, kind):
    assert taxonomy.kind_of(category, name) == kind


def test_codes_of_many_events_are_those_of_each():
    categories = ["kernel", "cpu_op", "gpu_memcpy", ""]
    names = [*COMMUNICATION[:3], *COMPUTE[:3], "nccl:all_reduce", "Memcpy HtoD"]
    rng = np.random.default_rng(0)
    category, name = rng.integers(0, 4, 500), rng.integers(0, len(names), 500)
    codes = taxonomy.kind_codes(category, name, categories, names)
    assert [KINDS[code] for code in codes] == [
        taxonomy.kind_of(categories[c], names[n]) for c, n in zip(category, name, strict=True)
    ]


def test_the_table_can_be_read():
    rules = taxonomy.rules
    assert list(rules.columns) == ["kind", "category", "name", "ignore_case", "note", "added"]
    assert set(rules["kind"]) == set(KINDS)
    assert not rules["added"].any()
    assert rules.iloc[-1]["kind"] == "other"


@pytest.fixture
def changed():
    """Undo the rules that a test adds."""
    yield taxonomy
    taxonomy.reset()


HOST = [
    small.event("cpu_op", "c10d::allreduce_", 5_000, 70_000, pid=1),
    small.event("user_annotation", "gloo:all_reduce", 10_000, 60_000, pid=1),
    small.event("cpu_op", "aten::mm", 80_000, 100_000, pid=1),
]


def test_collectives_of_a_rank_without_device_work_are_communication(tmp_path):
    traces = small.load(tmp_path, HOST, [*HOST, small.kernel(10_000, 20_000)])
    names = ["c10d::allreduce_", "gloo:all_reduce", "aten::mm"]
    kinds = [trace.events.set_index("name")["kind"][names].tolist() for trace in traces.values()]
    # With device work, only the device's communication counts.
    assert kinds == [["communication", "communication", "cpu"], ["cpu", "annotation", "cpu"]]
    assert len(traces.select("kind == 'communication'").events()) == 2


@pytest.mark.parametrize(
    ("kernels", "kinds"),
    [([], {"communication", "cpu"}), ([small.kernel(10_000, 20_000)], set())],
    ids=["host alone", "next to a device"],
)
def test_the_legend_names_communication_on_hosts(tmp_path, kernels, kinds):
    engine = TileEngine(small.load(tmp_path, [*HOST, *kernels]))
    assert set(engine.scene()["host_kinds"]) & {"communication", "cpu"} == kinds


def test_collectives_on_the_host_keep_no_device_busy(tmp_path):
    traces = small.load(tmp_path, HOST)
    for analysis in (hw.analysis.temporal_breakdown, hw.analysis.kernel_breakdown):
        frame = analysis(traces)
        assert frame.empty
        assert "no device work" in frame.attrs["note"]
    overlap = hw.analysis.comm_comp_overlap(traces, window=(0, 50_000))
    assert overlap["communication_ns"].tolist() == [0]


def test_added_rules_come_before_that_of_collectives_on_the_host(tmp_path, changed):
    traces = small.load(tmp_path, HOST)
    changed.add("cpu", "^gloo:")
    kinds = traces[0].events.set_index("name")["kind"]
    assert kinds["gloo:all_reduce"] == "cpu"
    assert kinds["c10d::allreduce_"] == "communication"


def test_an_added_rule_comes_first_and_holds_for_device_work(changed):
    changed.add("communication", r"^my_ring", note="ours")
    assert changed.kind_of("kernel", "my_ring_exchange<8>") == "communication"
    assert changed.kind_of("kernel", "My_Ring_exchange<8>") == "compute"
    assert changed.kind_of("cpu_op", "my_ring_exchange") == "cpu"
    assert changed.rules.iloc[0].to_dict() == {
        "kind": "communication", "category": changed.rules.iloc[0]["category"],
        "name": "^my_ring", "ignore_case": False, "note": "ours", "added": True,
    }  # fmt: skip
    changed.reset()
    assert changed.kind_of("kernel", "my_ring_exchange<8>") == "compute"


def test_a_rule_can_be_for_a_category_or_for_all(changed):
    changed.add("compute", "x", category="hpu_.*")
    assert changed.kind_of("hpu_something", "x") == "compute"
    changed.add("annotation", "^## ")
    assert changed.kind_of("cpu_op", "## forward ##") == "annotation"


def test_loaded_ranks_follow_the_rules(changed, make):
    trace = make(kernel("my_ring", 0, 5), op("a", 0, 1))

    def kinds():
        return trace.events.set_index("name")["kind"].to_dict()

    before = {"my_ring": "compute", "a": "cpu"}
    assert kinds() == before
    changed.add("communication", "my_ring")
    assert kinds() == before | {"my_ring": "communication"}
    assert KINDS[trace.table.kind[0]] == "communication"
    changed.reset()
    assert kinds() == before


def test_bad_rules_are_refused():
    with pytest.raises(TraceError, match=r"unknown kind 'comm'.*compute, communication"):
        taxonomy.add("comm", "x")
    with pytest.raises(TraceError, match=r"'\(' is not a regular expression"):
        taxonomy.add("compute", "(")
    assert taxonomy.version() == taxonomy.version()
    assert not taxonomy.rules["added"].any()
