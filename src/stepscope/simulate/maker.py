"""Ops from shapes, with the kernels that they launch. Nothing here knows of time's order."""

from __future__ import annotations

import math

from stepscope.simulate.gpu import ATTENTION_SHARE, CONVOLUTION_SHARE
from stepscope.simulate.kernels import PLAIN_SHARE, Kernels
from stepscope.simulate.model import BF16, BYTE, FLOAT, LONG, NOTHING, Node, Op, arguments, tensor, value

_SGEMM_CONVOLUTION = (
    "void implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, false, false, true>(int, int, int)"
)
_PASSES = (
    ("aten::mul", "at::native::AUnaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
     "at::native::binary_internal::MulFunctor<float> >"),
    ("aten::add", "at::native::CUDAFunctorOnSelf_add<c10::BFloat16>"),
    ("aten::tanh", "at::native::tanh_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}"),
    ("aten::pow", "at::native::(anonymous namespace)::pow_tensor_scalar_kernel_impl<c10::BFloat16, "
     "c10::BFloat16>(at::TensorIteratorBase&, c10::BFloat16)::{lambda(c10::BFloat16)#2}"),
)  # fmt: skip


class Maker(Kernels):
    """Makes ops of a GPU's usual kernels."""

    def passes(self, shape: tuple[int, ...]) -> tuple[Op, ...]:
        """What an op written out in many takes on top: a tensor read and written again, `num_passes`
        times."""
        n = math.prod(shape)
        found = []
        for number in range(self.variation.num_passes):
            op, functor = _PASSES[number % len(_PASSES)]
            name = (
                f"void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, 2ul> >(int, "
                f"{functor}, std::array<char*, 2ul>)"
            )
            found.append(Op(op, arguments([tensor(*shape), value(2)]), (self.stream(name, n, 4 * n),)))
        return tuple(found)

    def linear(self, rows: tuple[int, ...], k: int, n: int, has_bias: bool = True) -> Node:
        """`nn.Linear` from k to n features, with both products of its backward pass."""
        m = math.prod(rows)
        is_plain = self.is_plain()
        product = self.plain_product if is_plain else self.product
        of = FLOAT if is_plain else BF16
        if has_bias:
            inner = Op(
                "aten::addmm",
                arguments([tensor(n, of=of), tensor(m, k, of=of), tensor(k, n, of=of), value(1), value(1)]),
                (product(m, n, k),),
                "aten::linear",
            )
        else:
            given = arguments([tensor(m, k, of=of), tensor(k, n, of=of)])
            inner = Op("aten::mm", given, (product(m, n, k),), "aten::linear")
        backward = [
            Op(
                "aten::mm",
                arguments([tensor(m, n, of=of), tensor(n, k, of=of)]),
                (product(m, k, n, "NNT"),),
            ),
            Op(
                "aten::mm",
                arguments([tensor(n, m, of=of), tensor(m, k, of=of)]),
                (product(n, k, m, "NTT"),),
            ),
        ]
        if has_bias:
            backward.append(self.sum(m, n))
        return Node(
            (inner,), "AddmmBackward0" if has_bias else "MmBackward0", tuple(backward), n * k + n * has_bias
        )

    def sum(self, m: int, n: int) -> Op:
        """The gradient of a bias."""
        functor = "at::native::sum_functor<c10::BFloat16, float, c10::BFloat16>"
        name = (
            f"void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, {functor}, "
            "unsigned int, "
            "c10::BFloat16, 4> >(at::native::ReduceOp<c10::BFloat16>)"
        )
        given = arguments([tensor(m, n), value([0]), value(True), NOTHING])
        return Op("aten::sum", given, (self.rows(name, math.ceil(n / 32), 2 * m * n),))

    def norm(self, rows: tuple[int, ...], size: int) -> Node:
        """Layer normalisation over the last dimension."""
        n = math.prod(rows)
        shape = tensor(*rows, size)
        space = "void at::native::(anonymous namespace)::"
        forward = self.rows(
            f"{space}vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*)",
            n,
            4 * n * size,
            34,
        )
        inputs = self.rows(
            f"{space}layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>(c10::BFloat16 const*)",
            n,
            6 * n * size,
            40,
        )
        weights = self.rows(
            f"{space}GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, float, 32u, 1u, 32u, true, "
            "false>(long)",
            math.ceil(size / 32),
            4 * n * size,
            48,
        )
        ones = tensor(size)
        given = [shape, value([size]), ones, ones, value(1e-05)]
        statistic = tensor(*rows, 1, of=FLOAT)
        back = [shape, shape, value([size]), statistic, statistic, ones, ones, value([True, True, True])]
        more = self.passes((*rows, size))
        return Node(
            (Op("aten::native_layer_norm", arguments(given), (forward,), "aten::layer_norm"), *more),
            "NativeLayerNormBackward0",
            (Op("aten::native_layer_norm_backward", arguments(back), (inputs, weights)), *more),
            2 * size,
        )

    def pointwise(
        self,
        op: str,
        functor: str,
        shape: tuple[int, ...],
        node: str,
        backward: str | None,
        num_inputs: int = 1,
    ) -> Node:
        """An elementwise op of `num_inputs` tensors; `backward` is the op of its gradient where it has
        one."""
        n = math.prod(shape)
        name = (
            f"void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, %dul> >(int, "
            f"{functor})"
        )
        extra = [value(1)] if op == "aten::add" else []
        forward = Op(
            op,
            arguments([tensor(*shape)] * num_inputs + extra),
            (self.stream(name % (num_inputs + 1), n, 2 * n * (num_inputs + 1)),),
        )
        back: tuple[Op, ...] = ()
        if backward is not None:
            kernel = self.stream(name.replace("Functor", "BackwardFunctor") % 3, n, 6 * n)
            extra = [value("none")] if backward == "aten::gelu_backward" else []
            back = (Op(backward, arguments([tensor(*shape)] * 2 + extra), (kernel,)),)
        more = self.passes(shape)
        return Node((forward, *more), node, (*back, *more))

    def attention(self, batch: int, length: int, heads: int, size: int) -> Node:
        """Causal flash attention; written out in single precision where no product has tensor cores."""
        if self.variation.plain_share >= 1.0:
            return self._plain_attention(batch, length, heads, size)
        traits = (
            f"pytorch_flash::Flash_{{0}}_kernel_traits<{size}, 128, 128, 4, false, false, "
            "cutlass::bfloat16_t>"
        )
        flops = 2 * 2 * batch * heads * length * length * size / 2
        moved = 2 * 4 * batch * length * heads * size
        blocks = (max(math.ceil(length / 128), 1), batch, heads)
        forward = self.kernel(
            f"void pytorch_flash::flash_fwd_kernel<{traits.format('fwd')}, false, true, false, false, "
            "true, true, "
            "false>(pytorch_flash::Flash_fwd_params)",
            self.gpu.time_ns(flops, moved, ATTENTION_SHARE),
            blocks,
            (128, 1, 1),
            255,
            49_152,
            num_bytes=moved,
            tensor_flops=flops,
        )
        backward = (
            self.kernel(
                f"void pytorch_flash::flash_bwd_dot_do_o_kernel<true, {traits.format('bwd')}>"
                "(pytorch_flash::Flash_bwd_params)",
                self.gpu.time_ns(0, moved, 1.0),
                blocks,
                (256, 1, 1),
                40,
                num_bytes=moved,
            ),
            self.kernel(
                ""
                f"void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<{traits.format('bwd')}, "
                "false, true, false, false, true, true>(pytorch_flash::Flash_bwd_params)",
                self.gpu.time_ns(2.5 * flops, 2 * moved, ATTENTION_SHARE * 0.85),
                blocks,
                (256, 1, 1),
                255,
                147_456,
                num_bytes=2 * moved,
                tensor_flops=2.5 * flops,
            ),
            self.kernel(
                f"void pytorch_flash::flash_bwd_convert_dq_kernel<{traits.format('bwd')}>"
                "(pytorch_flash::Flash_bwd_params, int)",
                self.gpu.time_ns(0, moved / 2, 1.0),
                blocks,
                (256, 1, 1),
                40,
                num_bytes=moved / 2,
            ),
        )
        one = tensor(batch, length, heads, size)
        lengths = [NOTHING, NOTHING, value(length), value(length), value(0.0), value(True), value(False)]
        given = [one, one, one, *lengths, value(size**-0.5), NOTHING, NOTHING, NOTHING, NOTHING]
        sums = tensor(batch, heads, length, of=FLOAT)
        back = [one, one, one, one, one, sums, NOTHING, NOTHING, value(length), value(length), value(0.0)]
        back += [value(True), tensor(2, of=LONG), tensor(of=LONG), value(size**-0.5), NOTHING, NOTHING]
        return Node(
            (
                Op(
                    "aten::_flash_attention_forward",
                    arguments(given),
                    (forward,),
                    "aten::scaled_dot_product_attention",
                ),
            ),
            "ScaledDotProductFlashAttentionBackward0",
            (Op("aten::_flash_attention_backward", arguments(back), backward),),
        )

    def _plain_attention(self, batch: int, length: int, heads: int, size: int) -> Node:
        """Two products and a softmax, with all scores in memory."""
        h = batch * heads
        q, scores = tensor(h, length, size, of=FLOAT), tensor(h, length, length, of=FLOAT)
        n = h * length * length
        one = self.plain_product(length, length, size, "TN", h)
        other = self.plain_product(length, size, length, "NN", h)
        softmax = self.rows(
            "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(int)",
            h * length,
            8 * n,
        )
        given = [scores, value(-1), value(False)]
        forward = (
            Op("aten::bmm", arguments([q, q]), (one,), "aten::matmul"),
            Op("aten::_softmax", arguments(given), (softmax,), "aten::softmax"),
            Op("aten::bmm", arguments([scores, q]), (other,), "aten::matmul"),
        )
        back = self.rows(
            "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<4, float, float, float>(int)",
            h * length,
            12 * n,
        )
        backward = (
            Op("aten::bmm", arguments([q, q]), (one,)),
            Op("aten::bmm", arguments([scores, q]), (other,)),
            Op("aten::_softmax_backward_data", arguments([scores, scores, value(-1), value(6)]), (back,)),
            Op("aten::bmm", arguments([scores, q]), (other,)),
            Op("aten::bmm", arguments([scores, q]), (other,)),
        )
        return Node(forward, "BmmBackward0", backward)

    def convolution(self, batch: int, cin: int, cout: int, size: int, kernel: int, stride: int) -> Node:
        """A square convolution without bias that keeps the size, or halves it with a stride of 2."""
        out = size // stride
        weight = cout * cin * kernel * kernel
        flops = 2 * batch * out * out * weight
        moved = 2 * (batch * (cin * size * size + cout * out * out) + weight)
        tail = (
            "bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1_tensor16x8x16"
            "_kernel_cudnn"
        )
        dur = self.gpu.time_ns(flops, moved, CONVOLUTION_SHARE)
        grid = (max(math.ceil(batch * out * out / 128), 1), math.ceil(cout / 128), 1)
        does: dict[str, float] = {"num_bytes": moved, "tensor_flops": flops, "fp32": 0.03}
        forms = (f"sm80_xmma_fprop_implicit_gemm_{tail}", f"sm80_xmma_dgrad_implicit_gemm_{tail}")
        weights_form, wide = f"sm80_xmma_wgrad_implicit_gemm_indexed_{tail}", BF16
        if self.is_plain():
            dur = max(1e9 * flops / (self.gpu.fp32_flops * PLAIN_SHARE), self.gpu.time_ns(0, 2 * moved, 1.0))
            does = {"num_bytes": 2 * moved, "fp32": 1e9 * flops / self.gpu.fp32_flops / dur}
            forms = (
                _SGEMM_CONVOLUTION,
                "void cudnn::cnn::dgrad2d_grouped_direct_kernel<float, int, float>()",
            )
            weights_form, wide = "void cudnn::cnn::wgrad2d_grouped_direct_kernel<float, int, float>()", FLOAT
        padding = [kernel // 2, kernel // 2]
        inputs = tensor(batch, cin, size, size, of=wide)
        weights = tensor(cout, cin, kernel, kernel, of=wide)
        result = tensor(batch, cout, out, out, of=wide)
        ones, strides = value([1, 1]), value([stride, stride])
        given = [inputs, weights, value(padding), strides, ones, value(1)]
        given += [value(False), value(False), value(True)]
        back = [result, inputs, weights, value([0]), strides, value(padding), ones, value(False)]
        back += [value([0, 0]), value(1), value([True, True, False])]
        return Node(
            (
                Op(
                    "aten::cudnn_convolution",
                    arguments(given),
                    (self.kernel(forms[0], dur, grid, (128, 1, 1), 234, 81_920, **does),),
                    "aten::conv2d",
                ),
            ),
            "ConvolutionBackward0",
            (
                Op(
                    "aten::convolution_backward",
                    arguments(back),
                    (
                        self.kernel(forms[1], dur, grid, (128, 1, 1), 242, 81_920, **does),
                        self.kernel(
                            weights_form,
                            1.1 * dur,
                            (math.ceil(cin * kernel * kernel / 128), math.ceil(cout / 128), 8),
                            (128, 1, 1),
                            242,
                            81_920,
                            **does,
                        ),
                    ),
                ),
            ),
            weight,
        )

    def batch_norm(self, batch: int, channels: int, size: int) -> Node:
        """Batch normalisation of cuDNN."""
        n = batch * channels * size * size
        shape, one = tensor(batch, channels, size, size), tensor(channels, of=FLOAT)
        given = [shape, one, one, one, one, value(True), value(0.1), value(1e-05)]
        back = [shape, shape, one, one, one, one, one, value(1e-05), tensor(0, of=BYTE)]
        tail = (
            "<__nv_bfloat16, float, float, __nv_bfloat162, 512, true, 1>(cudnnTensorStruct, __nv_bfloat16 "
            "const*)"
        )
        return Node(
            (
                Op(
                    "aten::cudnn_batch_norm",
                    arguments(given),
                    (self.rows(f"void cudnn::bn_fw_tr_1C11_kernel_NCHW{tail}", channels, 6 * n),),
                    "aten::batch_norm",
                ),
            ),
            "CudnnBatchNormBackward0",
            (
                Op(
                    "aten::cudnn_batch_norm_backward",
                    arguments(back),
                    (self.rows(f"void cudnn::bn_bw_1C11_kernel_new{tail}", channels, 8 * n, 56),),
                ),
            ),
            2 * channels,
        )
