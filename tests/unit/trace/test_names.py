import signal

import pytest
from hypothesis import given, strategies as st

from hta_widgets.trace.names import disambiguate, kernel_family, short_name


# The first six are in the table of the visual design.
@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, …)", "AllReduce ring LL sum f32"),
        (
            (
                "void at::native::vectorized_elementwise_kernel<4, "
                "at::native::CUDAFunctor_add<float>, …>"
            ),
            "add",
        ),
        (
            "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(…)",
            "gemm tf32 256x64 nn",
        ),
        (
            "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_…_tilesize128x128x16_stage4_…",
            "wgrad implicit_gemm tf32 128x128x16",
        ),
        (
            "_ZN19cutlass_cudnn_train6Kernel…Conv2dWgradOutputGradient…GemmShapeILi128ELi128ELi32E…",
            "conv2d wgrad 128x128x32",
        ),
        ("autograd::engine::evaluate_function: ConvolutionBackward0", "ConvolutionBackward0"),
        # Values in range names distinguish the ranges.
        ("execute_context_0(0)_generation_16(16)", "execute_context_0(0)_generation_16(16)"),
        ("execute_context_1(512)_generation_3(3)", "execute_context_1(512)_generation_3(3)"),
        ("decode(bs=4)", "decode(bs=4)"),
        ("run (step 3) (bs 4)", "run (step 3) (bs 4)"),
        ("add_kernel(float*, int, void (*)(int (*)(int4)))", "add"),
        # Names from real traces.
        (
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)",
            "AllReduce ring LL sum f32",
        ),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "SendRecv ring SIMPLE sum i8"),
        ("ncclDevKernel_SendRecv(ncclDevComm*)", "SendRecv"),
        (
            (
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
                "at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::"
                "operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, "
                "float, 4> >(at::native::ReduceOp<float>)"
            ),
            "sum reduce",
        ),
        (
            (
                "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
                "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::"
                "operator()() const::{lambda(float)#1}>(at::TensorIteratorBase&)::"
                "{lambda(int)#1}>(int)"
            ),
            "direct_copy",
        ),
        (
            (
                "void at::native::vectorized_elementwise_kernel<4, "
                "at::native::BinaryFunctor<float, float, float, "
                "at::native::binary_internal::MulFunctor<float> >, "
                "at::detail::Array<char*, 3> >(int)"
            ),
            "mul",
        ),
        (
            (
                "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
                "(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::"
                "BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>, float>(X)"
            ),
            "plus multi_tensor",
        ),
        (
            "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(X)",
            "bn_fw_tr_1C11_NCHW 512",
        ),
        ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false>(X)", "nchwToNhwc"),
        (
            "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true>(X)",
            "softmax_warp_forward 10",
        ),
        ("at::cuda::(anonymous namespace)::spin_kernel(long)", "spin"),
        (
            "std::enable_if<(((8)>(0)))&&A<c10::Half>::is, void>::type B::add_norm_kernel<int>(X)",
            "add_norm",
        ),
        (
            (
                "void at::native::unrolled_elementwise_kernel_for_multi_outputs<3, "
                "at::native::stats(at::Tensor const&)::{lambda()#1}, std::array<char*, 7ul> >(int)"
            ),
            "stats",
        ),
        ("volta_scudnn_128x64_relu_xregs_large_nn_v1", "conv f32 128x64 nn relu xregs large"),
        (
            "Cijk_Ailk_Bjlk_SB_Bias_AS_SAV_UserArgs_MT64x16x16_MI16x16x1_SN_LDSB0",
            "gemm f32 64x16x16 nt",
        ),
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEEEEviT0_T1_",
            "add",
        ),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD"),
        ("Memset (Device)", "Memset"),
        ("torch/nn/modules/module.py(1501): _call_impl", "_call_impl"),
        ("<built-in method conv2d of type object at 0x7f0>", "conv2d"),
        ("Optimizer.step#SGD.step", "SGD.step"),
        # Names that are complete already.
        ("aten::add_", "aten::add_"),
        ("ProfilerStep#4", "ProfilerStep#4"),
        ("nccl:all_reduce", "nccl:all_reduce"),
        # One kernel for all collectives.
        ("ncclDevKernel_Generic_1(ncclDevComm*, unsigned long)", "NCCL collective"),
        ("void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)", "RCCL collective"),
        ("triton_poi_fused_add_cos_sin_0", "triton poi add_cos_sin_0"),
        # Library kernels: operation, precision, tile, layout, and the rest.
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn", "gemm bf16 128x64 nn"),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "gemm f16 128x128 tn"),
        ("volta_sgemm_32x32_sliced1x4_tn", "gemm f32 32x32 tn sliced1x4"),
        ("nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN", "gemm bf16 144x128 tnn bias"),
        ("Cijk_Alik_Bljk_BBS_BH_MT256x192x64_MI16x16x1_SN", "gemm bf16 256x192x64 tn"),
        ("Cijk_Ailk_Bljk_F8B8NS_BH_MT256x192x64_MI16x16x1", "gemm f8 256x192x64 nn"),
        ("igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt128x64x16_wt32", "conv wgrad bf16 128x64x16 nhwc"),
        ("sm90_xmma_gemm_bf16bf16_f32_tn_n_tilesize64x64x64_x", "gemm bf16 64x64x64 tn"),
        ("fmha_cutlassB_f16_aligned_64x128_rf_sm80(X)", "fmha bwd f16 64x128"),
        (
            (
                "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, "
                "cutlass::bfloat16_t>, false>(X)"
            ),
            "flash_fwd bf16 d64",
        ),
        (
            (
                "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<"
                "cute::C<2>, cute::C<1>, cute::C<1>>, cute::tuple<cute::C<128>, cute::C<64>, "
                "cute::C<32>>, cutlass::half_t>>(X)"
            ),
            "gemm f16 128x64x32",
        ),
        (
            (
                "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<"
                "flash::Mainloop<2>>>>(X)"
            ),
            "FlashAttnFwdSm90",
        ),
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_8PipelineE", "Rmsnorm2dFwd"),
        ("void ck_tile::kentry<256, 1, ck_tile::FmhaFwdKernel<B>>(X)", "FmhaFwd"),
        (
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::"
                "GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&)::{lambda()#1}, X>(X)"
            ),
            "gelu_backward",
        ),
        # Names that start like a library's names.
        ("ampere_something_else", "something_else"),
        ("enumerate(DataLoader)#_It.__next__", "enumerate(DataLoader)#_It.__next__"),
        ("PyTorch Profiler (0)", "PyTorch Profiler (0)"),
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
        ("", ""),
    ],
)
def test_short_names(full, short):
    assert short_name(full) == short


PARTS = st.sampled_from(
    ["void ", "_ZN", "nccl", "Kernel", "ncclDevKernel_", "<", ">", "(", ")", "::", ",", "_", "12",
     "at::native::", "reduce_kernel", "Functor", "{lambda", "}", "->", "sm80_xmma_", "é", " "]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PARTS, max_size=20).map("".join)))
def test_any_text_has_a_short_name(text):
    short = short_name(text)
    assert bool(short) == bool(text)
    assert len(short) <= max(len(text), 4)


@pytest.fixture
def _processor_limit():
    """End a test that takes a minute of CPU time, regardless of other load."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, 60)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


_WRAPPER = "void at::native::vectorized_elementwise_kernel<4, "


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer")
@pytest.mark.usefixtures("_processor_limit")
@pytest.mark.parametrize(
    "head", ["", "Cijk_", "_ZN", "ncclDevKernel_", "sm80_xmma_gemm_", _WRAPPER]
)
@pytest.mark.parametrize("part", ["a", "A_", "1a", "a::", "<", "func_wrapper_t<", "MT1x", "é "])
def test_names_of_a_megabyte_are_short_and_stay_different(head, part):
    text = head + part * (10**6 // len(part))
    short = short_name(text)
    assert 0 < len(short) <= 212
    if len(short) == 212:  # shortened
        assert short != short_name(f"{text[:2000]}!{text[2001:]}")
    assert len(set(disambiguate([short, short], [text, f"{text}b"]))) == 2


def test_long_names_that_differ_at_their_ends_stay_different():
    assert short_name("a" * 50_000) != short_name("a" * 50_000 + "b")


def test_equal_short_names_get_the_parts_that_differ():
    names = [
        "cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align1",
        "cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4",
        "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4",
    ]
    labels = disambiguate([short_name(name) for name in names], names)
    ends = ["16x4, align1", "16x4, align4", "32x3"]
    assert labels == [f"gemm tf32 128x128 nn ({end})" for end in ends]


@pytest.mark.parametrize(
    ("full", "family"),
    [
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn", "gemm"),
        ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "gemm"),
        ("_grouped_mm_TNN_f16xf16xe4m3_64x32x128_silu", "grouped_mm"),
        ("batched_transpose_64x16_half", "batched_transpose"),
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x8x512_s3_et64x8_m64x8x32_c1x1x1_16dp256b", "bmm"),
        ("triton_red_fused_mean_pow_41", "triton red mean_pow"),
        # Names that would be empty without these parts.
        ("kernel_7", "kernel_7"),
        ("64x64_nn", "64x64_nn"),
    ],
)
def test_a_family_of_kernels_is_named_without_variants(full, family):
    assert kernel_family(short_name(full)) == family
