"""Convolutions: every output element takes C_in/groups · kernel multiply-adds. A bias is not counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stepscope.analyse.work.call import Call, Shape, Unknown, Work


@dataclass(frozen=True, slots=True)
class _Places:
    """Where each argument stands; -1 where the op has none."""

    input: int
    weight: int
    bias: int
    stride: int
    padding: int
    dilation: int
    transposed: int = -1
    output_padding: int = -1
    groups: int = -1
    """Asked for transposed ones only: else the weight's shape tells."""


def _every(values: Shape, num: int) -> Shape:
    """One number stands for all dimensions."""
    if len(values) not in (1, num):
        raise Unknown
    return values * num if len(values) == 1 else values


def _output(call: Call, places: _Places) -> tuple[Shape, bool]:
    """Spatial sizes of the result, and whether it is a transposed convolution."""
    _, _, *sizes = call.shape(places.input)
    _, _, *kernel = call.shape(places.weight)
    num = len(sizes)
    stride, padding, dilation = (
        _every(call.numbers(at), num) for at in (places.stride, places.padding, places.dilation)
    )
    if len(kernel) != num or min(stride) < 1:
        raise Unknown
    transposed = places.transposed >= 0 and call.flag(places.transposed)
    if transposed:
        extra = _every(call.numbers(places.output_padding), num)
        out = [
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, s, p, d, k, e in zip(sizes, stride, padding, dilation, kernel, extra, strict=True)
        ]
    else:
        out = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, s, p, d, k in zip(sizes, stride, padding, dilation, kernel, strict=True)
        ]
    if min(out, default=0) < 1:
        raise Unknown
    return tuple(out), transposed


def _macs(inputs: Shape, weight: Shape, result: Shape, transposed: bool) -> int:
    """Multiply-adds of one pass. The weight's shape is (out, in/groups, …), transposed (in, out/groups, …):
    its second size and its kernel are what each element of the larger side meets."""
    large = inputs if transposed else result
    return math.prod(large) * math.prod(weight[1:])


def _forward(places: _Places) -> Callable[[Call], Work]:
    def work(call: Call) -> Work:
        inputs, weight = call.shape(places.input), call.shape(places.weight)
        if len(inputs) != len(weight) or len(inputs) < 3:
            raise Unknown
        sizes, transposed = _output(call, places)
        channels = weight[1] * call.number(places.groups) if transposed else weight[0]
        if inputs[1] != weight[0] if transposed else not weight[1] or inputs[1] % weight[1]:
            raise Unknown
        result = (inputs[0], channels, *sizes)
        num_bytes = call.bytes(places.input) + call.bytes(places.weight)
        if places.bias >= 0:
            num_bytes += call.bytes(places.bias)
        return Work(
            2 * _macs(inputs, weight, result, transposed),
            num_bytes + math.prod(result) * call.size(places.input),
            call.precision(places.input),
            is_matrix=True,
        )

    return work


def _backward(call: Call) -> Work:
    """`convolution_backward`: as much again for each gradient that is asked for."""
    gradient, inputs, weight = call.shape(0), call.shape(1), call.shape(2)
    if not len(gradient) == len(inputs) == len(weight) >= 3:
        raise Unknown
    for_input, for_weight, *_ = call.flags(10)
    macs = _macs(inputs, weight, gradient, call.flag(7))
    moved = call.bytes(0)
    if for_input:
        moved += call.bytes(2) + call.bytes(1)
    if for_weight:
        moved += call.bytes(1) + call.bytes(2)
    return Work(2 * macs * (for_input + for_weight), moved, call.precision(0), is_matrix=True)


def _backward_part(size_at: int, other_at: int, is_input: bool) -> Callable[[Call], Work]:
    """The older ops of one gradient each: a size, the gradient, and the other factor."""

    def work(call: Call) -> Work:
        wanted, gradient, other = call.numbers(size_at), call.shape(1), call.shape(other_at)
        inputs, weight = (wanted, other) if is_input else (other, wanted)
        if not len(inputs) == len(weight) == len(gradient) >= 3:
            raise Unknown
        num_bytes = call.bytes(1) + call.bytes(other_at) + math.prod(wanted) * call.size(1)
        return Work(2 * _macs(inputs, weight, gradient, False), num_bytes, call.precision(1), is_matrix=True)

    return work


_GENERAL = _Places(0, 1, 2, stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8)
_CUDNN = _Places(0, 1, -1, padding=2, stride=3, dilation=4)
_MIOPEN = _Places(0, 1, 2, padding=3, stride=4, dilation=5)
_FUSED = _Places(0, 1, 2, stride=3, padding=4, dilation=5)

FORMULAS: Mapping[str, Callable[[Call], Work]] = {
    "aten::convolution": _forward(_GENERAL),
    "aten::_convolution": _forward(_GENERAL),
    "aten::convolution_overrideable": _forward(_GENERAL),
    "aten::cudnn_convolution": _forward(_CUDNN),
    "aten::cudnn_convolution_relu": _forward(_FUSED),
    "aten::miopen_convolution": _forward(_MIOPEN),
    "aten::miopen_depthwise_convolution": _forward(_MIOPEN),
    "aten::mkldnn_convolution": _forward(_MIOPEN),
    "aten::_conv_depthwise2d": _forward(_Places(0, 1, 3, stride=4, padding=5, dilation=6)),
    "aten::convolution_backward": _backward,
    "aten::cudnn_convolution_backward_input": _backward_part(0, 2, is_input=True),
    "aten::cudnn_convolution_backward_weight": _backward_part(0, 2, is_input=False),
    "aten::miopen_convolution_backward_input": _backward_part(0, 2, is_input=True),
    "aten::miopen_convolution_backward_weight": _backward_part(0, 2, is_input=False),
}
