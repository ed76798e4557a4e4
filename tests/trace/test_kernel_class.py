"""Kernel names to classes: names of real kernels, and those that fooled other tools."""

from __future__ import annotations

import pytest

from stepscope.model.error import UsageError
from stepscope.trace.kernel_class import classify, parse_table

NAMES = {
    "communication": [
        "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void rcclGenericKernel<false>(ncclDevComm*, unsigned long, ncclWork*)",
        "void deep_ep::internode::dispatch<true, 8>(int4*, float*)",
        "nvshmemi_transfer_kernel",
        "void multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "two_shot_all_reduce_kernel",
        "hcom_allReduce_",
        "void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int, int, int)",
        "Memcpy PtoP (Device -> Device)",
    ],
    "gemm": [
        "hipblasLt_gemm",
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_cublas",
        "volta_sgemm_128x32_nt",
        "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
        "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1",
    ],
    "convolution": [
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>",
        "volta_scudnn_128x64_relu_interior_nn_v1",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32",
        "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3>",
    ],
    "attention": [
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>",
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
        "attn_fwd",
        "kernel_unified_attention_3d",
    ],
    "normalization": [
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256",
    ],
    "softmax": ["void (anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>"],
    "optimizer": ["void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor>"],
    "elementwise": [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
        "batched_transpose_16x32_half",
        "SubTensorOpWithCastTensor1d",
        "void at::native::elementwise_kernel<128, 4, gpu_kernel_impl<direct_copy_kernel_cuda>>",
    ],
    "triton": ["triton_poi_fused__to_copy_1", "triton__0d1d2d3d4d5d6d"],
    "embedding": ["void split_embedding_codegen_forward_unweighted_kernel<float, float>"],
    "reduction": ["void at::native::reduce_kernel<512, 1, ReduceOp<float, MeanOps<float>>>"],
    "other": ["frobnicate_v2"],
}


@pytest.mark.parametrize(("cls", "name"), [(c, n) for c, names in NAMES.items() for n in names])
def test_a_kernel_has_its_class(cls: str, name: str) -> None:
    assert classify(name)[0] == cls


@pytest.mark.parametrize(
    ("name", "tensor_core"),
    [
        ("nvjet_tst_64x64_64x16_2x1_v_bz_TNT", True),
        ("volta_sgemm_128x32_nt", False),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_ffma_aligna4_cublas", False),
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nchw_ffma_cudnn", False),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", True),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn", True),
        ("some_gemm_of_unknown_make", None),
        ("frobnicate_v2", None),
    ],
)
def test_tensor_cores_are_known_by_name_or_not_at_all(name: str, tensor_core: bool | None) -> None:
    assert classify(name)[1] is tensor_core


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("gem\tyes\tx", "line 1"),
        ("gemm\tmaybe\tx", "line 1"),
        ("gemm\tyes\t(", "does not compile"),
        ("gemm", "line 1"),
    ],
)
def test_a_bad_line_of_a_class_table_is_named(line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_table(line, "mine.tsv")
