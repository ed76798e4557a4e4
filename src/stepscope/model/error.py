"""Errors are facts with a type: one base class, an exit code each, the data as attributes."""

from __future__ import annotations


class StepscopeError(Exception):
    """Any refusal or failure that a user can act on.

    `str(error)` is one line that names the input, the place and the mend; `exit_code` is the code
    every verb ends with when it escapes.
    """

    exit_code = 70


class UsageError(StepscopeError):
    """The words of the command are wrong."""

    exit_code = 2


class InputError(StepscopeError):
    """An input cannot be read: missing, unreadable, or not what it says.

    `name` is the input as the user gave it, `place` where in it (a byte, a line, a member) or
    `None`, `mend` what would help.
    """

    exit_code = 3

    def __init__(self, name: str, what: str, mend: str, place: str | None = None) -> None:
        self.name = name
        self.what = what
        self.mend = mend
        self.place = place
        at = f" at {place}" if place else ""
        super().__init__(f"{name}{at}: {what}; {mend}")

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str, str | None]]:
        """From one process to another: an exception is made again from its parts, not from its line."""
        return type(self), (self.name, self.what, self.mend, self.place)


class ServiceError(StepscopeError):
    """A service that was asked cannot be reached, does not let us in, or fails.

    `name` is the service as the user gave it, without credentials; `what` and `mend` as of InputError.
    """

    exit_code = 4

    def __init__(self, name: str, what: str, mend: str) -> None:
        self.name = name
        self.what = what
        self.mend = mend
        super().__init__(f"{name}: {what}; {mend}")

    def __reduce__(self) -> tuple[type[ServiceError], tuple[str, str, str]]:
        """From one process to another: made again from its parts."""
        return type(self), (self.name, self.what, self.mend)


class UnusableError(StepscopeError):
    """The inputs were read, but nothing can be said from them."""

    exit_code = 3


class RefusedError(StepscopeError):
    """Refused by us: a budget or a safety limit."""

    exit_code = 5
