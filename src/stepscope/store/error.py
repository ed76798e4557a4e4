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


class AnotherAgentError(StepscopeError):
    """Marks of a ring that another agent of this host shipped before: they wait until that one is heard, and
    counts, or is silent, and does not. To be sent again."""

    exit_code = 5

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(f"{host}: another agent ships this ring; end one of the two, or wait")

    def __reduce__(self) -> tuple[type[AnotherAgentError], tuple[str]]:
        """From one process to another: made again from its parts."""
        return type(self), (self.host,)
