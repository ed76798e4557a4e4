"""A small caching allocator that keeps the books as PyTorch's does, and writes its memory snapshot.

Sizes are rounded up to 512 bytes and segments to 2 MiB; a free block is split, freed neighbours of one
segment join. `snapshot()` is what `torch.cuda.memory._snapshot()` returns, by the description of its
format.
"""

from __future__ import annotations

from typing import Any

KB, MB = 1 << 10, 1 << 20
BEGIN_US = 1_700_000_000_000_000
Frame = tuple[str, int, str]
TRAIN: tuple[Frame, ...] = (
    ("??", 0, "at::native::empty_cuda(c10::ArrayRef<long>)"),
    ("/home/ada/venv/lib/python3.11/site-packages/torch/nn/functional.py", 2000, "linear"),
    ("/home/ada/job/train.py", 42, "forward"),
    ("/home/ada/job/train.py", 99, "main"),
)


def framed(frames: tuple[Frame, ...]) -> list[dict[str, Any]]:
    return [{"filename": file, "line": line, "name": name} for file, line, name in frames]


class Allocator:
    """One device's allocator with at most `limit` bytes of the driver."""

    def __init__(self, limit: int, device: int = 0) -> None:
        self.limit = limit
        self.device = device
        self.segments: dict[int, list[dict[str, Any]]] = {}
        self.history: list[dict[str, Any]] = []
        self.failed: list[tuple[int, int, list[int]]] = []
        """Of every failure: reserved, in use, and the sizes of the free pieces, at that moment."""
        self.levels: list[tuple[int, int]] = []
        """In use and reserved behind every entry that changes either."""
        self._next = 0x7F00_0000_0000
        self._stacks: dict[tuple[Frame, ...], list[dict[str, Any]]] = {}

    @property
    def reserved(self) -> int:
        return sum(block["size"] for blocks in self.segments.values() for block in blocks)

    @property
    def used(self) -> int:
        return sum(b["size"] for blocks in self.segments.values() for b in blocks if b["state"] != "inactive")

    def _note(self, action: str, address: int, size: int, frames: tuple[Frame, ...], **more: Any) -> None:
        entry = {
            "action": action,
            "addr": address,
            "size": size,
            "stream": 0,
            "time_us": BEGIN_US + len(self.history),
            "frames": self._stacks.setdefault(frames, framed(frames)),
            **more,
        }
        if action == "oom":
            del entry["addr"]
        self.history.append(entry)
        if action not in ("oom", "free_requested", "snapshot"):
            self.levels.append((self.used, self.reserved))

    def alloc(self, size: int, frames: tuple[Frame, ...] = TRAIN) -> int | None:
        """The address, `None` where the request fails."""
        rounded = -(-size // 512) * 512
        place = self._fitting(rounded)
        if place is None:
            segment = -(-rounded // (2 * MB)) * 2 * MB
            if self.reserved + segment > self.limit:
                self.empty_cache()
            place = self._fitting(rounded)
            if place is None and self.reserved + segment <= self.limit:
                address = self._next
                self._next += segment
                self.segments[address] = [{"address": address, "size": segment, "state": "inactive"}]
                self._note("segment_alloc", address, segment, frames)
                place = (address, 0)
        if place is None:
            pieces = [
                b["size"] for blocks in self.segments.values() for b in blocks if b["state"] == "inactive"
            ]
            self.failed.append((self.reserved, self.used, pieces))
            self._note("oom", 0, size, frames, device_free=self.limit - self.reserved)
            return None
        blocks, at = self.segments[place[0]], place[1]
        block = blocks[at]
        rest = block["size"] - rounded
        address = int(block["address"])
        block |= {"size": rounded, "requested_size": size, "state": "active_allocated"}
        block["frames"] = self._stacks.setdefault(frames, framed(frames))
        if rest:
            blocks.insert(at + 1, {"address": address + rounded, "size": rest, "state": "inactive"})
        self._note("alloc", address, size, frames)
        return address

    def _fitting(self, size: int) -> tuple[int, int] | None:
        """The smallest free block that is large enough."""
        found = [
            (block["size"], start, at)
            for start, blocks in self.segments.items()
            for at, block in enumerate(blocks)
            if block["state"] == "inactive" and block["size"] >= size
        ]
        return min(found)[1:] if found else None

    def free(self, address: int) -> None:
        start = max(s for s in self.segments if s <= address)
        blocks = self.segments[start]
        at = next(i for i, block in enumerate(blocks) if block["address"] == address)
        size = blocks[at]["requested_size"]
        self._note("free_requested", address, size, TRAIN)
        blocks[at] = {"address": address, "size": blocks[at]["size"], "state": "inactive"}
        for left in (at, at - 1):
            if (
                0 <= left < len(blocks) - 1
                and blocks[left]["state"] == blocks[left + 1]["state"] == "inactive"
            ):
                blocks[left]["size"] += blocks.pop(left + 1)["size"]
        self._note("free_completed", address, size, TRAIN)

    def empty_cache(self) -> None:
        """Give segments that nothing is in use of back to the driver."""
        for start, blocks in list(self.segments.items()):
            if len(blocks) == 1 and blocks[0]["state"] == "inactive":
                del self.segments[start]
                self._note("segment_free", start, blocks[0]["size"], TRAIN)

    def snapshot_of(self, size: int) -> dict[str, Any]:
        """The snapshot of one allocation."""
        self.alloc(size)
        return self.snapshot()

    def snapshot(self, **settings: Any) -> dict[str, Any]:
        return {
            "segments": [
                {
                    "device": self.device,
                    "address": start,
                    "total_size": sum(block["size"] for block in blocks),
                    "allocated_size": sum(b["size"] for b in blocks if b["state"] != "inactive"),
                    "active_size": sum(b["size"] for b in blocks if b["state"] != "inactive"),
                    "requested_size": sum(b.get("requested_size", 0) for b in blocks),
                    "stream": 0,
                    "segment_type": "large",
                    "segment_pool_id": (0, 0),
                    "is_expandable": False,
                    "blocks": [{"requested_size": 0, "frames": [], **block} for block in blocks],
                }
                for start, blocks in sorted(self.segments.items())
            ],
            "device_traces": [[] for _ in range(self.device)] + [self.history],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False, **settings},
            "external_annotations": [],
        }
