"""What the store refuses or cannot do now."""

from __future__ import annotations

from stepscope.model.error import StepscopeError


class StoreFullError(StepscopeError):
    """Nothing can be written now: the disk is full, read-only or failing. Reads go on; what was refused is to
    be sent again. `folder` is the store's, `why` the system's or the engine's word for it."""

    exit_code = 5

    def __init__(self, folder: str, why: str) -> None:
        self.folder = folder
        self.why = why
        super().__init__(f"{folder}: nothing can be written ({why}); make room on the disk of the store")

    def __reduce__(self) -> tuple[type[StoreFullError], tuple[str, str]]:
        """From one process to another: made again from its parts."""
        return type(self), (self.folder, self.why)
