"""Arithmetic and traffic of single calls, each worked out by hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyse.work import FORMULAS, Call, call_of, work_of
from stepscope.analyse.work.attention import pairs

BF16, HALF, FLOAT, LONG = "c10::BFloat16", "c10::Half", "float", "long int"


def call(*arguments: object) -> Call:
    """Each argument as (shape, type), or a text: the value of a scalar or of a list."""
    shapes = [a[0] if isinstance(a, tuple) else [] for a in arguments]
    types = [a[1] if isinstance(a, tuple) else "Scalar" for a in arguments]
    values = ["" if isinstance(a, tuple) else a for a in arguments]
    return call_of(json.dumps(shapes), json.dumps(types), json.dumps(values))


NOTHING = ([], "")
CONV = "[1, 1]", "[1, 1]", "[1, 1]"


@pytest.mark.parametrize(
    ("op", "of", "flops", "num_bytes"),
    [
        # 2·M·N·K; (M·K + K·N + M·N) elements
        ("aten::mm", call(([4, 8], BF16), ([8, 16], BF16)), 2 * 4 * 16 * 8, 2 * (32 + 128 + 64)),
        # the bias is read, and its addition not counted
        ("aten::addmm", call(([16], FLOAT), ([4, 8], FLOAT), ([8, 16], FLOAT)), 1024, 4 * (16 + 224)),
        ("aten::bmm", call(([3, 4, 8], HALF), ([3, 8, 16], HALF)), 3 * 1024, 3 * 2 * 224),
        ("aten::mv", call(([4, 8], FLOAT), ([8], FLOAT)), 64, 4 * (32 + 8 + 4)),
        ("aten::linear", call(([2, 2, 8], BF16), ([16, 8], BF16), ([16], BF16)), 1024, 2 * (224 + 16)),
        # eight-bit factors, a result of two bytes
        (
            "aten::_scaled_mm",
            call(([4, 8], "c10::Float8_e4m3fn"), ([8, 16], "c10::Float8_e4m3fn")),
            1024,
            32 + 128 + 2 * 64,
        ),
        # 2 images, 3 -> 8 channels, 3×3, stride 1, padding 1: 10×10 stay. 2·(2·8·100)·(3·9)
        (
            "aten::convolution",
            call(([2, 3, 10, 10], FLOAT), ([8, 3, 3, 3], FLOAT), ([8], FLOAT), *CONV, "False", "[0, 0]", "1"),
            86_400,
            4 * (600 + 216 + 8 + 1600),
        ),
        # the same as cuDNN's op: padding stands before stride. Stride 2: 5×5 remain
        (
            "aten::cudnn_convolution",
            call(([2, 3, 10, 10], FLOAT), ([8, 3, 3, 3], FLOAT), "[1, 1]", "[2, 2]", "[1, 1]", "1"),
            21_600,
            4 * (600 + 216 + 400),
        ),
        # depthwise: each of 8 channels by itself, 2·(2·8·100)·9
        (
            "aten::_conv_depthwise2d",
            call(([2, 8, 10, 10], FLOAT), ([8, 1, 3, 3], FLOAT), "[3, 3]", NOTHING, *CONV),
            28_800,
            4 * (1600 + 72 + 1600),
        ),
        # transposed: every input element meets 8 channels of 3×3 of the result
        (
            "aten::convolution",
            call(
                *(([2, 3, 10, 10], FLOAT), ([3, 8, 3, 3], FLOAT), NOTHING),
                *("[2, 2]", "[1, 1]", "[1, 1]", "True", "[1, 1]", "1"),
            ),
            2 * (2 * 3 * 100) * (8 * 9),
            4 * (600 + 216 + 2 * 8 * 20 * 20),
        ),
        # dilation 2 makes of 3×3 a reach of 5: 6×6 remain
        (
            "aten::convolution",
            call(
                *(([1, 1, 10, 10], FLOAT), ([1, 1, 3, 3], FLOAT), NOTHING),
                *("[1, 1]", "[0, 0]", "[2, 2]", "False", "[0, 0]", "1"),
            ),
            2 * 36 * 9,
            4 * (100 + 9 + 36),
        ),
        # one dimension
        (
            "aten::convolution",
            call(
                *(([1, 4, 10], FLOAT), ([6, 4, 3], FLOAT), NOTHING),
                *("[1]", "[1]", "[1]", "False", "[0]", "1"),
            ),
            2 * 60 * 12,
            4 * (40 + 72 + 60),
        ),
        # both gradients, twice the forward; then only the weight's
        (
            "aten::convolution_backward",
            call(
                *(([2, 8, 10, 10], FLOAT), ([2, 3, 10, 10], FLOAT), ([8, 3, 3, 3], FLOAT), "[8]", *CONV),
                *("False", "[0, 0]", "1", "[True, True, True]"),
            ),
            172_800,
            4 * (1600 + 2 * 600 + 2 * 216),
        ),
        (
            "aten::convolution_backward",
            call(
                *(([2, 8, 10, 10], FLOAT), ([2, 3, 10, 10], FLOAT), ([8, 3, 3, 3], FLOAT), "[8]", *CONV),
                *("False", "[0, 0]", "1", "[False, True, True]"),
            ),
            86_400,
            4 * (1600 + 600 + 216),
        ),
        # 2 batches, 4 heads, 8 queries and keys of 16: 4·64·2·4·16
        (
            "aten::_scaled_dot_product_flash_attention",
            call(*[([2, 4, 8, 16], HALF)] * 3, "0.", "False", "False"),
            32_768,
            2 * 4 * 1024,
        ),
        # causal: 36 of 64 pairs
        (
            "aten::_scaled_dot_product_flash_attention",
            call(*[([2, 4, 8, 16], HALF)] * 3, "0.", "True", "False"),
            4 * 36 * 2 * 4 * 16,
            2 * 4 * 1024,
        ),
        # two heads of keys and values for four of queries
        (
            "aten::_flash_attention_forward",
            call(
                *(([2, 8, 4, 16], HALF), ([2, 8, 2, 16], HALF), ([2, 8, 2, 16], HALF), NOTHING, NOTHING),
                *("8", "8", "0.", "False", "False"),
            ),
            32_768,
            2 * (1024 + 512 + 512 + 1024),
        ),
        # backward: five products of which forward has two
        (
            "aten::_scaled_dot_product_flash_attention_backward",
            call(
                *([([2, 4, 8, 16], HALF)] * 5),
                *(([2, 4, 8], FLOAT), NOTHING, NOTHING, "8", "8", "0.", "False"),
            ),
            32_768 * 5 // 2,
            2 * 2 * 4 * 1024,
        ),
        # memory-efficient, causal from the first key
        (
            "aten::_efficient_attention_forward",
            call(*[([2, 8, 4, 16], HALF)] * 3, NOTHING, NOTHING, NOTHING, "8", "8", "0.", "1", "False"),
            4 * 36 * 2 * 4 * 16,
            2 * 4 * 1024,
        ),
        # with a bias of the scores; causal from the first key: of eight queries and sixteen keys 36 pairs
        (
            "aten::_scaled_dot_product_efficient_attention",
            call(
                *(
                    ([2, 4, 8, 16], HALF),
                    ([2, 4, 16, 16], HALF),
                    ([2, 4, 16, 16], HALF),
                    ([2, 4, 8, 16], HALF),
                ),
                *("False", "0.", "True"),
            ),
            4 * 36 * 2 * 4 * 16,
            2 * (1024 + 2048 + 2048 + 1024 + 1024),
        ),
        # one operation an element; a row is broadcast; the wider type wins
        ("aten::add", call(([4, 8], BF16), ([8], FLOAT), "1"), 32, 64 + 32 + 128),
        ("aten::mul_", call(([4, 8], FLOAT), ([4, 8], FLOAT)), 32, 128 * 3),
        ("aten::eq", call(([4, 8], FLOAT), ([4, 8], FLOAT)), 32, 128 * 2 + 32),
        ("aten::copy_", call(([4, 8], BF16), ([8], FLOAT), "False"), 0, 32 * 2 + 8 * 4),
        ("aten::fill_", call(([4, 8], FLOAT), "0"), 0, 128),
        ("aten::sum", call(([4, 8], FLOAT), NOTHING), 32, 128),
        # five operations, and two for scale and shift
        (
            "aten::native_layer_norm",
            call(([4, 8], BF16), "[8]", ([8], BF16), ([8], BF16), "1e-5"),
            7 * 32,
            2 * (64 + 16),
        ),
        ("aten::_softmax", call(([4, 8], FLOAT), "-1", "False"), 160, 256),
        ("aten::threshold_backward", call(([4, 8], FLOAT), ([4, 8], FLOAT), "0"), 64, 384),
        # six rows of eight are read and written; the table of a million is not
        (
            "aten::index_select",
            call(([1_000_000, 8], BF16), "0", ([6], LONG)),
            0,
            6 * 8 + 2 * 6 * 8 * 2,
        ),
    ],
)
def test_a_call_takes_this_work(op: str, of: Call, flops: int, num_bytes: int) -> None:
    work = work_of(op, of)
    assert work is not None
    assert (work.flops, work.bytes) == (flops, num_bytes)


@pytest.mark.parametrize(
    ("op", "of"),
    [
        ("aten::view", call(([4], FLOAT))),  # no formula
        ("aten::mm", call()),  # shapes were not recorded
        ("aten::mm", call(([4, 8], BF16))),
        ("aten::mm", call(([4, 8], BF16), ([9, 16], BF16))),  # they do not fit
        ("aten::mm", call(([4, 8], "TensorList"), ([8, 16], BF16))),
        ("aten::linear", call(([], FLOAT), ([16, 8], FLOAT))),
        # stride and padding were not recorded (PyTorch before 1.13 writes no values)
        ("aten::cudnn_convolution", call(([2, 3, 10, 10], FLOAT), ([8, 3, 3, 3], FLOAT), "", "", "", "")),
        ("aten::cudnn_convolution", call(([2, 3, 10, 10], FLOAT), ([8, 2, 3, 3], FLOAT), *CONV, "1")),
        # packed sequences: their lengths are in a tensor
        (
            "aten::_flash_attention_forward",
            call(*[([64, 4, 16], HALF)] * 3, ([9], "int"), ([9], "int"), "8", "8", "0.", "True"),
        ),
        # a sliding window of 128
        (
            "aten::_flash_attention_forward",
            call(
                *([([2, 8, 4, 16], HALF)] * 3),
                *(NOTHING, NOTHING, "8", "8", "0.", "True", "False", "0.1", "128", "0"),
            ),
        ),
        ("aten::add", call(([4, 8], FLOAT), ([3], FLOAT), "1")),
        ("aten::cat", call(([[4], [4]], "TensorList"), "0")),
    ],
)
def test_arguments_that_do_not_tell_give_nothing(op: str, of: Call) -> None:
    assert work_of(op, of) is None


@pytest.mark.parametrize(
    ("num_queries", "num_keys", "first", "seen"),
    [(8, 8, 1, 36), (1, 8, 8, 8), (4, 8, 5, 26), (8, 4, -3, 10), (8, 4, 1, 26), (8, 8, 8, 64), (3, 2, -5, 0)],
)
def test_pairs_that_a_mask_lets_through(num_queries: int, num_keys: int, first: int, seen: int) -> None:
    assert sum(min(max(first + i, 0), num_keys) for i in range(num_queries)) == seen
    assert pairs(num_queries, num_keys, first) == seen


ANY = st.recursive(
    st.one_of(
        st.integers(-3, 2**70), st.sampled_from(["", "1", "True", "[1, 1]", FLOAT, BF16, "x" * 9]), st.none()
    ),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=30,
)


@given(st.sampled_from(sorted(FORMULAS)), ANY, ANY, ANY)
@settings(max_examples=400, deadline=None)
def test_whatever_stands_there_is_no_error(op: str, shapes: object, types: object, values: object) -> None:
    work = work_of(op, call_of(json.dumps(shapes), json.dumps(types), json.dumps(values)))
    assert work is None or (work.flops >= 0 and work.bytes >= 0)


SHAPE = st.lists(st.integers(0, 9), max_size=5)


@given(
    st.sampled_from(sorted(FORMULAS)),
    st.lists(st.tuples(SHAPE, st.sampled_from([FLOAT, BF16, LONG, "", "Scalar"])), max_size=12),
    st.lists(
        st.sampled_from(["", "0", "1", "-1", "True", "[True, False, True]", "[1, 2]", "[0]"]), max_size=12
    ),
)
@settings(max_examples=1000, deadline=None)
def test_no_shapes_are_an_error(op: str, tensors: list[tuple[list[int], str]], values: list[str]) -> None:
    of = call_of(json.dumps([s for s, _ in tensors]), json.dumps([t for _, t in tensors]), json.dumps(values))
    work = work_of(op, of)
    assert work is None or (work.flops >= 0 and work.bytes >= 0)


@pytest.mark.parametrize("text", ["", "[", "null", "3", "[" * 5000, '{"a": 1}', "[[1e999]]", "[NaN]"])
def test_texts_that_are_no_arguments_give_nothing(text: str) -> None:
    assert work_of("aten::mm", call_of(text, text, text)) is None
