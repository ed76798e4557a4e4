"""The models that can be simulated, each from its sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from stepscope.model.error import UsageError
from stepscope.simulate.gpu import Gpu, gpu_of
from stepscope.simulate.maker import Maker
from stepscope.simulate.model import (
    BF16,
    BYTE,
    FLOAT,
    LONG,
    NOTHING,
    PLAIN,
    Kernel,
    Layer,
    Node,
    Op,
    Variation,
    Workload,
    arguments,
    tensor,
    value,
)

VOCABULARY = 50_304
HEAD_SIZE = 128
EXPERTS_PER_RANK = 2
CHOSEN_EXPERTS = 2
"""Experts that each token is sent to."""
OFF_GRID = 3
"""By how much a misaligned model is narrower than the grid."""
ADAM_BYTES = 22
"""Moved per parameter of an update: weight and gradient in two bytes, both moments in four, read and
written."""
SGD_BYTES = 14
MOST_BATCH = 4096
PARAMETERS_PER_LAUNCH = 100_000_000
"""A fused update takes as many tensors as fit its table."""


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes of a model. `length` is a sequence's, for resnet the side of an image."""

    batch: int
    length: int
    width: int
    num_layers: int


SIZES = {
    "transformer": Size(batch=4, length=2048, width=2048, num_layers=12),
    "moe": Size(batch=4, length=2048, width=1024, num_layers=8),
    "resnet": Size(batch=128, length=224, width=64, num_layers=16),
}
TINY = {
    "transformer": Size(batch=1, length=128, width=256, num_layers=12),
    "moe": Size(batch=1, length=128, width=256, num_layers=8),
    "resnet": Size(batch=2, length=64, width=16, num_layers=16),
}
"""The same models so small that every kernel takes a few microseconds."""


@lru_cache(maxsize=256)
def workload(
    model: str,
    gpu: str,
    size: Size,
    stretch: float = 1.0,
    load: float = 1.0,
    variation: Variation = PLAIN,
) -> Workload:
    """The model at this size; `load` is this rank's share of the tokens against an equal one (moe)."""
    make = Maker(gpu_of(gpu), stretch, variation)
    if variation.misaligned != 1.0:
        size = Size(size.batch, size.length, size.width - OFF_GRID, size.num_layers)
    if model == "transformer":
        return _transformer(make, size)
    if model == "moe":
        return _transformer(make, size, load)
    if model == "resnet":
        return _resnet(make, size)
    raise UsageError(f"model {model}: is not simulated; take transformer, resnet or moe")


def fitted(model: str, gpu: str, size: Size, step_ns: float) -> tuple[Size, float]:
    """The batch, and the factor on every kernel, with which computing a step takes so long.

    Raises UsageError where even a batch of one takes longer.
    """
    one, two = (_step_ns(workload(model, gpu, _with_batch(size, batch)), gpu_of(gpu)) for batch in (1, 2))
    batch = max(math.floor((step_ns - one) / max(two - one, 1.0)) + 1, 1)
    size = _with_batch(size, min(batch, MOST_BATCH))
    stretch = step_ns / _step_ns(workload(model, gpu, size), gpu_of(gpu))
    if stretch < 0.95:
        # The smallest kernels take as long for one as for several: between one and two says too little.
        least, most = 1, size.batch
        while most - least > 1:
            middle = (least + most) // 2
            takes = _step_ns(workload(model, gpu, _with_batch(size, middle)), gpu_of(gpu))
            least, most = (middle, most) if takes <= step_ns else (least, middle)
        size = _with_batch(size, least)
        stretch = step_ns / _step_ns(workload(model, gpu, size), gpu_of(gpu))
    # Kernels cannot be faster than the device; a little of that is within what the table is good for.
    if stretch < 0.95:
        least = math.ceil(one / 1e6)
        raise UsageError(
            f"step of {step_ns / 1e6:g} ms: a batch of one takes {least} ms on it; ask for {least} or "
            "fewer layers"
        )
    return size, stretch


def _with_batch(size: Size, batch: int) -> Size:
    return Size(batch, size.length, size.width, size.num_layers)


def _step_ns(work: Workload, gpu: Gpu) -> float:
    return work.compute_ns() + 1e9 * update_bytes(work.optimizer) * work.num_parameters() / gpu.memory_rate


def update_bytes(optimizer: str) -> int:
    """Bytes moved per parameter in an update."""
    return ADAM_BYTES if optimizer == "AdamW" else SGD_BYTES


def update(make: Maker, optimizer: str, num_parameters: int) -> tuple[Op, ...]:
    """The fused update of so many parameters."""
    num = max(math.ceil(num_parameters / PARAMETERS_PER_LAUNCH), 1)
    each = update_bytes(optimizer) * num_parameters / num
    space = "at::native::(anonymous namespace)::"
    if optimizer == "AdamW":
        op, functor = "aten::_fused_adamw_", f"{space}FusedAdamMathFunctor<c10::BFloat16, 4, 1, false>"
        table = f"{space}FusedOptimizerTensorListMetadata<4>"
    else:
        op, functor = "aten::_fused_sgd_", f"{space}FusedSgdMathFunctor<c10::BFloat16, 3>"
        table = f"{space}TensorListMetadata<3>"
    name = f"void {space}multi_tensor_apply_kernel<{table}, {functor}, float>({table}, {functor}, float)"
    kernel = make.kernel(name, make.gpu.time_ns(0, each, 1.0), (320, 1, 1), (512, 1, 1), 48, num_bytes=each)
    return (Op(op, arguments([NOTHING] * 5), (kernel,) * num),)


def _copied(make: Maker, shape: tuple[int, ...], of: str) -> tuple[Op, int]:
    given = [tensor(*shape, of=of), tensor(*shape, of=of), value(True)]
    width = {LONG: 8, BYTE: 1, FLOAT: 4, BF16: 2}[of]
    return Op("aten::copy_", arguments(given), (), "aten::to"), math.prod(shape) * width


def _transformer(make: Maker, size: Size, load: float | None = None) -> Workload:
    b, s, h = size.batch, size.length, size.width
    inner = h if h % 8 == 0 else h + OFF_GRID  # of attention, which keeps its grid
    heads = max(inner // HEAD_SIZE, 1)
    width = inner // heads
    add = ("aten::add", "at::native::CUDAFunctor_add<c10::BFloat16>", (b, s, h), "AddBackward0", None, 2)

    def layer() -> Layer:
        nodes: list[Node] = [
            make.norm((b, s), h),
            make.linear((b, s), h, 3 * inner),
            make.attention(b, s, heads, width),
            make.linear((b, s), inner, h),
            make.pointwise(*add),
            make.norm((b, s), h),
        ]
        if load is None:
            nodes += [
                make.linear((b, s), h, 4 * h),
                make.pointwise("aten::gelu", _GELU, (b, s, 4 * h), "GeluBackward0", "aten::gelu_backward"),
                make.linear((b, s), 4 * h, h),
            ]
        else:
            nodes += _experts(make, b, s, h, load)
        nodes.append(make.pointwise(*add))
        return tuple(nodes)

    num = size.num_layers
    is_mixed = 0 < make.variation.plain_share < 1  # else all layers are one
    middle = tuple(layer() for _ in range(num)) if is_mixed else (layer(),) * num
    layers = (_embedding(make, b, s, h), *middle, _head(make, b, s, h))
    return Workload(layers, _copied(make, (b, s), LONG), "AdamW")


_GELU = "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}"
_SILU = "at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}"


def _embedding(make: Maker, b: int, s: int, h: int) -> Layer:
    n = b * s * h
    gather = make.stream(
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned "
        "int, 2, 2, -2, "
        "true>(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>)",
        n,
        4 * n,
    )
    scatter = make.rows(
        "void at::native::(anonymous namespace)::embedding_backward_feature_kernel<c10::BFloat16, "
        "float, long>"
        "(long const*, c10::BFloat16 const*)",
        b * s,
        6 * n,
    )
    table, ids = tensor(VOCABULARY, h), tensor(b, s, of=LONG)
    back = [tensor(b, s, h), ids, value(VOCABULARY), value(-1), value(False)]
    return (
        Node(
            (
                Op(
                    "aten::embedding",
                    arguments([table, ids, value(-1), value(False), value(False)]),
                    (gather,),
                ),
            ),
            "EmbeddingBackward0",
            (Op("aten::embedding_dense_backward", arguments(back), (scatter,)),),
            VOCABULARY * h,
        ),
    )


def _head(make: Maker, b: int, s: int, h: int) -> Layer:
    n, v = b * s, VOCABULARY
    softmax = (
        "void at::native::(anonymous namespace)::cunn_SoftMax{}<4, c10::BFloat16, float, c10::BFloat16>(int)"
    )
    loss = (
        "void at::native::(anonymous namespace)::nll_loss_{}_reduce_cuda_kernel_2d<c10::BFloat16, float, "
        "long>(long)"
    )
    logits, ids = tensor(n, v), tensor(n, of=LONG)
    return (
        make.norm((b, s), h),
        make.linear((b, s), h, v, has_bias=False),
        Node(
            (
                Op(
                    "aten::_log_softmax",
                    arguments([logits, value(1), value(False)]),
                    (make.rows(softmax.format("Forward"), n, 4 * n * v),),
                ),
            ),
            "LogSoftmaxBackward0",
            (
                Op(
                    "aten::_log_softmax_backward_data",
                    arguments([logits, logits, value(1), value(15)]),
                    (make.rows(softmax.format("Backward"), n, 6 * n * v),),
                ),
            ),
        ),
        Node(
            (
                Op(
                    "aten::nll_loss_forward",
                    arguments([logits, ids, NOTHING, value(1), value(-100)]),
                    (make.rows(loss.format("forward"), 1, 8 * n),),
                ),
            ),
            "NllLossBackward0",
            (
                Op(
                    "aten::nll_loss_backward",
                    arguments([tensor(), logits, ids, NOTHING, value(1), value(-100), tensor()]),
                    (make.rows(loss.format("backward"), 1, 8 * n),),
                ),
            ),
        ),
    )


def _experts(make: Maker, b: int, s: int, h: int, load: float) -> list[Node]:
    """Router, dispatch, two experts, combine. Tokens of this rank's experts follow `load`."""
    tokens = b * s
    sent = tokens * CHOSEN_EXPERTS
    got = max(int(sent * load), 1)
    each = 64 * max(round(got / EXPERTS_PER_RANK / 64), 1)  # padded, as the grouped products want it
    number = 8 * EXPERTS_PER_RANK
    moved = 2 * got * h
    softmax = (
        "void (anonymous namespace)::softmax_warp_{}<c10::BFloat16, c10::BFloat16, float, 4, false, "
        "false>(int)"
    )
    scores = tensor(tokens, number)
    nodes = [
        make.linear((tokens,), h, number, has_bias=False),
        Node(
            (
                Op(
                    "aten::_softmax",
                    arguments([scores, value(-1), value(False)]),
                    (make.rows(softmax.format("forward"), tokens // 8, 4 * tokens * number),),
                ),
                Op(
                    "aten::topk",
                    arguments([scores, value(CHOSEN_EXPERTS), value(-1), value(True), value(True)]),
                    (make.rows(_TOPK, tokens, 16 * tokens * number),),
                ),
            ),
            "SoftmaxBackward0",
            (
                Op(
                    "aten::_softmax_backward_data",
                    arguments([scores, scores, value(-1), value(15)]),
                    (make.rows(softmax.format("backward"), tokens // 8, 6 * tokens * number),),
                ),
            ),
        ),
        _permuted(make, tokens, sent, h),
        Node((), "_AllToAllBackward", (), exchange_bytes=moved),
    ]
    for _ in range(EXPERTS_PER_RANK):
        nodes += [
            replace(make.linear((each,), h, 4 * h, has_bias=False), is_local=True),
            make.pointwise("aten::silu", _SILU, (each, 4 * h), "SiluBackward0", "aten::silu_backward"),
            replace(make.linear((each,), 4 * h, h, has_bias=False), is_local=True),
        ]
    nodes += [Node((), "_AllToAllBackward", (), exchange_bytes=moved), _permuted(make, sent, tokens, h)]
    return nodes


_TOPK = "void at::native::sbtopk::gatherTopK<c10::BFloat16, unsigned int, 2, false>(unsigned int, bool, bool)"


def _permuted(make: Maker, num_from: int, num_to: int, h: int) -> Node:
    name = (
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, "
        "long, bool)"
    )
    most = max(num_from, num_to)

    def op(rows: int, others: int) -> Op:
        kernel: Kernel = make.rows(name, most, 4 * most * h)
        return Op("aten::index", arguments([tensor(rows, h), tensor(others, of=LONG)]), (kernel,))

    return Node((op(num_from, num_to),), "IndexBackward0", (op(num_to, num_from),))


# (channels inside, channels out, blocks of sixteen) of the four stages of a ResNet of bottlenecks.
_STAGES = ((1, 4, 3), (2, 8, 4), (4, 16, 6), (8, 32, 3))


def _resnet(make: Maker, size: Size) -> Workload:
    b, side = size.batch, size.length // 4
    relu = (
        "at::native::(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&, "
        "c10::Scalar)::{lambda()#1}"
    )

    def whole(cin: int, cout: int, kernel: int, stride: int, side: int, last: bool = False) -> list[Node]:
        out = side // stride
        nodes = [make.convolution(b, cin, cout, side, kernel, stride), make.batch_norm(b, cout, out)]
        if not last:
            nodes.append(
                make.pointwise(
                    "aten::clamp_min", relu, (b, cout, out, out), "ReluBackward0", "aten::threshold_backward"
                )
            )
        return nodes

    layers: list[Layer] = [tuple(whole(3, size.width, 7, 2, size.length))]
    channels = size.width
    side = size.length // 2
    for inside, outside, count in _STAGES:
        for block in range(count):
            if len(layers) > size.num_layers:
                break
            stride = 2 if block == 0 else 1
            mid, out = inside * size.width, outside * size.width
            nodes = whole(channels, mid, 1, 1, side) + whole(mid, mid, 3, stride, side)
            side //= stride
            nodes += whole(mid, out, 1, 1, side, last=True)
            add = (b, out, side, side)
            nodes.append(
                make.pointwise(
                    "aten::add", "at::native::CUDAFunctor_add<c10::BFloat16>", add, "AddBackward0", None, 2
                )
            )
            layers.append(tuple(nodes))
            channels = out
    layers.append((make.linear((b,), channels, 1000),))
    batch = _copied(make, (b, 3, size.length, size.length), BYTE)
    return Workload(tuple(layers), batch, "SGD")
