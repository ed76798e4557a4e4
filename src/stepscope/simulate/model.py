"""What a model does in a step: nodes of ops and kernels, made from shapes. Nothing here knows of time's
order.

A `Workload` is made for one GPU and one size of batch. Its kernels' durations are what they take alone on a
healthy device, its shapes and grids are those of the sizes: a longer sequence makes more work, not slower
kernels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.simulate.gpu import ATTENTION_SHARE, CONVOLUTION_SHARE, GEMM_SHARE, Gpu

BF16, FLOAT, LONG, BYTE = "c10::BFloat16", "float", "long int", "unsigned char"


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A kernel: its duration on a healthy device in nanoseconds, and its launch as the profiler writes it
    (registers, shared memory, grid, block, occupancy), JSON without braces."""

    name: str
    dur_ns: float
    launch: str


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """An op with what was recorded of its arguments (JSON without braces), the kernels that it launches, and
    the op that called it."""

    name: str
    arguments: str
    kernels: tuple[Kernel, ...]
    parent: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One differentiable call: what runs forward, and what its node of the graph runs backward.

    `exchange_bytes` is an all-to-all before the forward ops, and again in the backward pass.
    """

    forward: tuple[Op, ...]
    backward_name: str
    backward: tuple[Op, ...]
    num_parameters: int = 0
    exchange_bytes: int = 0
    is_local: bool = False
    """Whether its parameters lie on one rank alone (experts): their gradients are not reduced."""


Layer = tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A model at one size: its layers in order, the batch it is fed, and its optimizer.

    `optimizer_bytes` is moved for each parameter in an update.
    """

    layers: tuple[Layer, ...]
    batch: tuple[Op, int]
    """The op that copies it and its bytes."""
    optimizer: str

    def compute_ns(self, first: int = 0, last: int | None = None) -> float:
        """Sum of kernel durations of these layers, forward and backward."""
        nodes = [node for layer in self.layers[first:last] for node in layer]
        ops = [op for node in nodes for op in (*node.forward, *node.backward)]
        return sum(kernel.dur_ns for op in ops for kernel in op.kernels)

    def num_parameters(self, first: int = 0, last: int | None = None) -> int:
        """Parameters of these layers."""
        return sum(node.num_parameters for layer in self.layers[first:last] for node in layer)


def tensor(*shape: int, of: str = BF16) -> tuple[list[int], str, str]:
    """A tensor argument: shape, type, value."""
    return list(shape), of, ""


def value(it: Any) -> tuple[list[int], str, str]:
    """A plain argument."""
    return [], "ScalarList" if isinstance(it, (list, tuple)) else "Scalar", str(it)


NOTHING: tuple[list[int], str, str] = ([], "", "")
Argument = tuple[list[int], str, str]


def arguments(given: Sequence[Argument]) -> str:
    """As the profiler writes them with record_shapes."""
    values, types, dims = [a[2] for a in given], [a[1] for a in given], [a[0] for a in given]
    strides = [_strides(shape) for shape in dims]
    return (
        f'"Concrete Inputs": {json.dumps(values)}, "Input type": {json.dumps(types)}, '
        f'"Input Strides": {json.dumps(strides)}, "Input Dims": {json.dumps(dims)}'
    )


def _strides(shape: list[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


class Maker:
    """Makes ops of a GPU's usual kernels. `stretch` multiplies every duration."""

    def __init__(self, gpu: Gpu, stretch: float = 1.0) -> None:
        self.gpu = gpu
        self.stretch = stretch

    def kernel(
        self,
        name: str,
        dur_ns: float,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        registers: int = 32,
        shared: int = 0,
    ) -> Kernel:
        """One kernel with its launch."""
        blocks, threads = math.prod(grid), math.prod(block)
        per_sm = blocks / self.gpu.num_sm
        resident = min(2048 // threads, 65536 // max(registers * threads, 1), 32)
        if shared:
            resident = min(resident, max(233_472 // shared, 1))
        occupancy = round(100 * min(per_sm, resident) * threads / 32 / self.gpu.warps_per_sm)
        launch = (
            f'"registers per thread": {registers}, "shared memory": {shared}, '
            f'"blocks per SM": {per_sm:.6f}, "warps per SM": {per_sm * threads / 32:.6f}, '
            f'"grid": [{grid[0]}, {grid[1]}, {grid[2]}], "block": [{block[0]}, {block[1]}, {block[2]}], '
            f'"est. achieved occupancy %": {min(occupancy, 100)}'
        )
        return Kernel(name, dur_ns * self.stretch, launch)

    def product(self, m: int, n: int, k: int, layout: str = "TNT", batch: int = 1) -> Kernel:
        """A matrix product (m, k) · (k, n) on the tensor cores."""
        flops = 2 * m * n * k * batch
        num_bytes = 2 * batch * (m * k + k * n + m * n)
        dur = self.gpu.time_ns(flops, num_bytes, GEMM_SHARE)
        tiles = (math.ceil(n / 128), math.ceil(m / 128), batch)
        if self.gpu.is_hopper:
            name = f"nvjet_tst_128x256_64x4_1x2_h_bz_coopB_{layout}"
            return self.kernel(name, dur, (tiles[0] * tiles[1], 1, batch), (384, 1, 1), 168, 213_248)
        name = f"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_{layout[:2].lower()}"
        return self.kernel(name, dur, tiles, (128, 1, 1), 230, 81_920)

    def stream(self, name: str, num_elements: int, num_bytes: float, registers: int = 24) -> Kernel:
        """An elementwise kernel that moves so many bytes."""
        grid = (max(math.ceil(num_elements / 512), 1), 1, 1)
        return self.kernel(name, self.gpu.time_ns(0, num_bytes, 1.0), grid, (128, 1, 1), registers)

    def rows(self, name: str, num_rows: int, num_bytes: float, registers: int = 40) -> Kernel:
        """A kernel of a block a row (norms, softmax, reductions)."""
        grid = (max(num_rows, 1), 1, 1)
        dur = self.gpu.time_ns(0, num_bytes, 1.0)
        return self.kernel(name, dur, grid, (128, 1, 1), registers, 512)

    def linear(self, rows: tuple[int, ...], k: int, n: int, has_bias: bool = True) -> Node:
        """`nn.Linear` from k to n features, with both products of its backward pass."""
        m = math.prod(rows)
        if has_bias:
            inner = Op(
                "aten::addmm",
                arguments([tensor(n), tensor(m, k), tensor(k, n), value(1), value(1)]),
                (self.product(m, n, k),),
                "aten::linear",
            )
        else:
            inner = Op(
                "aten::mm", arguments([tensor(m, k), tensor(k, n)]), (self.product(m, n, k),), "aten::linear"
            )
        backward = [
            Op("aten::mm", arguments([tensor(m, n), tensor(n, k)]), (self.product(m, k, n, "NNT"),)),
            Op("aten::mm", arguments([tensor(n, m), tensor(m, k)]), (self.product(n, k, m, "NTT"),)),
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
        return Node(
            (Op("aten::native_layer_norm", arguments(given), (forward,), "aten::layer_norm"),),
            "NativeLayerNormBackward0",
            (Op("aten::native_layer_norm_backward", arguments(back), (inputs, weights)),),
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
        return Node((forward,), node, back)

    def attention(self, batch: int, length: int, heads: int, size: int) -> Node:
        """Causal flash attention."""
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
        )
        backward = (
            self.kernel(
                f"void pytorch_flash::flash_bwd_dot_do_o_kernel<true, {traits.format('bwd')}>"
                "(pytorch_flash::Flash_bwd_params)",
                self.gpu.time_ns(0, moved, 1.0),
                blocks,
                (256, 1, 1),
                40,
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
            ),
            self.kernel(
                f"void pytorch_flash::flash_bwd_convert_dq_kernel<{traits.format('bwd')}>"
                "(pytorch_flash::Flash_bwd_params, int)",
                self.gpu.time_ns(0, moved / 2, 1.0),
                blocks,
                (256, 1, 1),
                40,
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

    def convolution(self, batch: int, cin: int, cout: int, size: int, kernel: int, stride: int) -> Node:
        """A square convolution without bias that keeps the size, or halves it with a stride of 2."""
        out = size // stride
        weight = cout * cin * kernel * kernel
        flops = 2 * batch * out * out * weight
        moved = 2 * (batch * (cin * size * size + cout * out * out) + weight)
        tail = (
            ""
            "bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn"
        )
        dur = self.gpu.time_ns(flops, moved, CONVOLUTION_SHARE)
        grid = (max(math.ceil(batch * out * out / 128), 1), math.ceil(cout / 128), 1)
        padding = [kernel // 2, kernel // 2]
        inputs, weights = tensor(batch, cin, size, size), tensor(cout, cin, kernel, kernel)
        result = tensor(batch, cout, out, out)
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
                    (
                        self.kernel(
                            f"sm80_xmma_fprop_implicit_gemm_{tail}", dur, grid, (128, 1, 1), 234, 81_920
                        ),
                    ),
                    "aten::conv2d",
                ),
            ),
            "ConvolutionBackward0",
            (
                Op(
                    "aten::convolution_backward",
                    arguments(back),
                    (
                        self.kernel(
                            f"sm80_xmma_dgrad_implicit_gemm_{tail}", dur, grid, (128, 1, 1), 242, 81_920
                        ),
                        self.kernel(
                            f"sm80_xmma_wgrad_implicit_gemm_indexed_{tail}",
                            1.1 * dur,
                            (math.ceil(cin * kernel * kernel / 128), math.ceil(cout / 128), 8),
                            (128, 1, 1),
                            242,
                            81_920,
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
