"""Names of a trace as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.views.shape import readable


@pytest.mark.parametrize(
    ("name", "width", "told"),
    [
        (
            "transformers/image_transforms.py(390): normalize",
            80,
            "normalize (transformers/image_transforms.py:390)",
        ),
        ("transformers/image_transforms.py(390): normalize", 40, "normalize (…/image_transforms.py:390)"),
        (
            "/opt/env/lib/python3.11/site-packages/torch/_ops.py(1244): __call__",
            80,
            "__call__ (torch/_ops.py:1244)",
        ),
        ("<built-in method astype of numpy.ndarray object at 0x7cbf780f01b0>", 80, "astype (numpy.ndarray)"),
        ("<built-in function array>", 80, "array (built-in)"),
        ("cudaStreamSynchronize in train.py(9): main", 80, "cudaStreamSynchronize in main (train.py:9)"),
        ("cudaMemcpyAsync in aten::copy_", 80, "cudaMemcpyAsync in aten::copy_"),
        ("Memcpy HtoD (Pageable -> Device)", 80, "Memcpy HtoD (Pageable -> Device)"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, float*)",
            80,
            "vectorized_elementwise_kernel<4, FillFunctor<float>>(int, float*)",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, float*)",
            60,
            "vectorized_elementwise_kernel<4, FillFunctor<float>>",
        ),
        (
            "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
            40,
            "ncclDevKernel_Generic",
        ),
        ("aten::cudnn_convolution_backward_weight", 30, "aten::cudnn_convol...rd_weight"),
    ],
)
def test_a_name_is_readable(name: str, width: int, told: str) -> None:
    assert readable(name, width) == told


@given(st.text(max_size=120), st.integers(20, 100))
def test_no_name_is_wider_than_asked_nor_lost(name: str, width: int) -> None:
    told = readable(name, width)
    assert len(told) <= width
    assert bool(told) == bool(name) or name == "void "
