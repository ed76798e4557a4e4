"""Kernels from sizes: their names, their launches, how long they take, and what they do to the device."""

from __future__ import annotations

import math

from stepscope.simulate.gpu import GEMM_SHARE, Gpu
from stepscope.simulate.model import PLAIN, Kernel, Variation

PLAIN_SHARE = 0.75
"""Of the ordinary pipes' peak, what a large product in single precision reaches."""
REREAD = 2.0
"""How often a product's operands come from memory: its tiles share them through the cache only in part."""
SIMPLE_FP32, SIMPLE_INT = 0.12, 0.15
"""Of the pipes' peak, what a kernel that streams uses of them."""


class Kernels:
    """Makes a GPU's usual kernels. `stretch` multiplies every duration."""

    def __init__(self, gpu: Gpu, stretch: float = 1.0, variation: Variation = PLAIN) -> None:
        self.gpu = gpu
        self.stretch = stretch
        self.variation = variation
        self._num_products = 0

    def is_plain(self) -> bool:
        """Whether the next product runs without tensor cores: evenly spread over the model."""
        self._num_products += 1
        share = self.variation.plain_share
        return math.ceil(self._num_products * share) > math.ceil((self._num_products - 1) * share)

    def kernel(
        self,
        name: str,
        dur_ns: float,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        registers: int = 32,
        shared: int = 0,
        *,
        num_bytes: float = 0.0,
        tensor_flops: float = 0.0,
        fp32: float = SIMPLE_FP32,
        integer: float = SIMPLE_INT,
    ) -> Kernel:
        """One kernel with its launch, from what it takes and moves."""
        blocks, threads = math.prod(grid), math.prod(block)
        per_sm = blocks / self.gpu.num_sm
        resident = min(2048 // threads, 65536 // max(registers * threads, 1), 32)
        if shared:
            resident = min(resident, max(233_472 // shared, 1))
        warps = threads / 32
        fits = max(min(resident, int(self.gpu.warps_per_sm / warps)), 1)
        waves = per_sm / fits
        # Blocks of the last wave are spread over as many multiprocessors as there are.
        busy = (math.floor(waves) + min((waves % 1) * fits, 1.0)) / math.ceil(waves)
        memory_ns = 1e9 * num_bytes / self.gpu.memory_rate
        occupancy = round(100 * min(per_sm, resident) * threads / 32 / self.gpu.warps_per_sm)
        launch = (
            f'"registers per thread": {registers}, "shared memory": {shared}, '
            f'"blocks per SM": {per_sm:.6f}, "warps per SM": {per_sm * threads / 32:.6f}, '
            f'"grid": [{grid[0]}, {grid[1]}, {grid[2]}], "block": [{block[0]}, {block[1]}, {block[2]}], '
            f'"est. achieved occupancy %": {min(occupancy, 100)}'
        )
        return Kernel(
            name,
            dur_ns * self.stretch,
            launch,
            sm_active=busy,
            occupancy=min(waves / math.ceil(waves) * fits * warps / self.gpu.warps_per_sm, busy),
            tensor_flops=tensor_flops,
            # A product's tiles come again, as far as the memory has time for it.
            num_bytes=min(num_bytes * (REREAD if tensor_flops else 1.0), self.gpu.memory_rate * dur_ns / 1e9),
            fp32=fp32,
            integer=integer,
            clock_share=0.0 if memory_ns > 0.98 * dur_ns else 1.0,
        )

    def product(self, m: int, n: int, k: int, layout: str = "TNT", batch: int = 1) -> Kernel:
        """A matrix product (m, k) · (k, n) on the tensor cores."""
        flops = 2 * m * n * k * batch
        num_bytes = 2 * batch * (m * k + k * n + m * n)
        dur = self.gpu.time_ns(flops, num_bytes, GEMM_SHARE)
        tiles = (math.ceil(n / 128), math.ceil(m / 128), batch)
        does: dict[str, float] = {
            "num_bytes": num_bytes,
            "tensor_flops": flops,
            "fp32": 0.02,
            "integer": 0.05,
        }
        short = layout[:2].lower()
        if self.variation.misaligned != 1.0:
            # Rows that do not begin on 16 bytes are loaded an element at a time.
            name = f"ampere_bf16_s1688gemm_bf16_64x64_ldg1_f2f_stages_32x5_{short}"
            small = (math.ceil(n / 64), math.ceil(m / 64), batch)
            return self.kernel(name, dur * self.variation.misaligned, small, (128, 1, 1), 122, 40_960, **does)
        if self.gpu.is_hopper:
            name = f"nvjet_tst_128x256_64x4_1x2_h_bz_coopB_{layout}"
            return self.kernel(name, dur, (tiles[0] * tiles[1], 1, batch), (384, 1, 1), 168, 213_248, **does)
        name = f"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_{short}"
        return self.kernel(name, dur, tiles, (128, 1, 1), 230, 81_920, **does)

    def plain_product(self, m: int, n: int, k: int, layout: str = "TN", batch: int = 1) -> Kernel:
        """The same in single precision, on the ordinary cores."""
        flops, num_bytes = 2 * m * n * k * batch, 4 * batch * (m * k + k * n + m * n)
        dur = max(1e9 * flops / (self.gpu.fp32_flops * PLAIN_SHARE), self.gpu.time_ns(0, num_bytes, 1.0))
        tiles = (math.ceil(n / 128), math.ceil(m / 128), batch)
        name = f"ampere_sgemm_128x128_{layout[:2].lower()}"
        fp32 = 1e9 * flops / self.gpu.fp32_flops / dur
        return self.kernel(
            name, dur, tiles, (256, 1, 1), 122, 33_792, num_bytes=num_bytes, fp32=fp32, integer=0.1
        )

    def stream(self, name: str, num_elements: int, num_bytes: float, registers: int = 24) -> Kernel:
        """An elementwise kernel that moves so many bytes."""
        grid = (max(math.ceil(num_elements / 512), 1), 1, 1)
        dur = self.gpu.time_ns(0, num_bytes, 1.0)
        return self.kernel(name, dur, grid, (128, 1, 1), registers, num_bytes=num_bytes)

    def rows(self, name: str, num_rows: int, num_bytes: float, registers: int = 40) -> Kernel:
        """A kernel of a block a row (norms, softmax, reductions)."""
        grid = (max(num_rows, 1), 1, 1)
        dur = self.gpu.time_ns(0, num_bytes, 1.0)
        return self.kernel(name, dur, grid, (128, 1, 1), registers, 512, num_bytes=num_bytes)
