"""Sampled: what modules put out, in every N-th step. Hooks exist in those steps only.

The numbers are computed where the tensor lies and fetched together at the end of the sampled step, which
waits for the device once; such a step carries the flag `stalled`, so that no finding is made of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stepscope_sdk import ring_abi as abi

if TYPE_CHECKING:
    from stepscope_sdk.monitor import Monitor

MOST_MODULES = 32
"""Two names' worth of the table of 64 are left for values and phases of one's own."""
_ACTIVATION, _SHARE = abi.kind_number("activation"), abi.kind_number("activation_share")


class Activations:
    """Of the named modules, else of the module's direct children (of itself where it has none)."""

    def __init__(self, module: Any, every: int, names: Iterable[str] | None) -> None:
        if names is None:
            chosen = dict(module.named_children()) or {type(module).__name__: module}
        else:
            wanted = set(names)
            chosen = {name: each for name, each in module.named_modules() if name in wanted}
        self._modules = dict(list(chosen.items())[:MOST_MODULES])
        self._every = max(int(every), 1)
        self._hooks: list[Any] = []
        self._found: list[tuple[str, Any]] = []

    def begin_step(self, step: int) -> None:
        """Watch this step if its turn has come."""
        self._forget()
        if step % self._every == 0:
            for name, module in self._modules.items():
                self._hooks.append(module.register_forward_hook(self._hook(name)))

    def end_step(self, monitor: Monitor) -> int:
        """Write what was found; the flags that the step has for it."""
        if not self._hooks:
            return 0
        found = self._found
        self._forget()
        if not found:
            return 0
        torch = sys.modules["torch"]
        rows = torch.stack([numbers.to(found[0][1].device) for _, numbers in found]).tolist()
        for (name, _), (mean, largest, zeros, not_finite) in zip(found, rows, strict=True):
            place = monitor._name(name)
            if place >= 0:
                monitor._write(_ACTIVATION, monitor._flags, monitor._step, place, mean, largest)
                monitor._write(_SHARE, monitor._flags, monitor._step, place, zeros, not_finite)
        return abi.FLAGS["stalled"]

    def _forget(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._found = [], []

    def _hook(self, name: str) -> Any:
        def hook(module: Any, given: Any, put_out: Any) -> None:
            try:
                first = put_out[0] if isinstance(put_out, tuple | list) and put_out else put_out
                self._found.append((name, _numbers(first)))
            except Exception:  # noqa: BLE001 - the outer wall: a hook's error would end the forward pass
                pass

        return hook


def _numbers(tensor: Any) -> Any:
    """mean and largest absolute value of what is finite, share of zeros, share of what is not finite."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        x = tensor.detach().float()
        finite = torch.isfinite(x)
        x = torch.where(finite, x, torch.zeros_like(x))
        num_finite = finite.sum().clamp(min=1)
        zeros = ((x == 0) & finite).float().mean()
        return torch.stack([x.sum() / num_finite, x.abs().max(), zeros, 1 - finite.float().mean()])
