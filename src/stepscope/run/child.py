"""The command that `stepscope run` starts: on the terminal as if it had been started by the shell.

It has a process group of its own, which has the terminal while it runs, so that Ctrl-C reaches it and not us.
Signals that we are sent go on to it. It is stopped and continued as a job of the shell.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType

TO_GROUP = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGHUP})
"""What a terminal sends to everything that is in front goes to all of the command's group."""
TO_CHILD = frozenset({signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2})
NOT_FOUND, NOT_RUN = 127, 126
"""Exit codes of a command that is not there, and of one that cannot be run; as a shell gives them."""
UNKNOWN = 70
"""Where the command's own code cannot be had."""
TICK_SECONDS = 0.1


class Child:
    """A running command."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it. FileNotFoundError or another OSError where that cannot be done."""
        import subprocess

        self._terminal = _terminal()
        terminal = self._terminal

        def own_group() -> None:
            os.setpgid(0, 0)
            if terminal is not None:
                before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
                os.tcsetpgrp(terminal, os.getpid())
                signal.signal(signal.SIGTTOU, before)

        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # inherited: its exit code would be lost
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._process = subprocess.Popen(list(words), env=dict(environment), preexec_fn=own_group)
        self.pid = self._process.pid
        self.code: int | None = None
        """Its exit code, 128 + N where signal N ended it, `None` while it runs."""
        self.signal: int | None = None

    def wait(self, on_tick: Callable[[], None]) -> int:
        """Wait for its end; `on_tick` is called about every `TICK_SECONDS`. The exit code."""
        with self._forwarded():
            while self.code is None:
                on_tick()
                self._look(TICK_SECONDS)
        self._take_terminal()
        return self.code

    def finish(self) -> int:
        """Wait for its end after a fault of ours, and through further ones. The exit code."""
        while self.code is None:
            with contextlib.suppress(Exception, KeyboardInterrupt):
                self.wait(lambda: None)
        return self.code

    def _look(self, seconds: float) -> None:
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:  # somebody else in this process took its code
            self.code = UNKNOWN
            return
        if pid == 0:
            time.sleep(seconds)
        elif os.WIFSTOPPED(status):
            self._stop()
        else:
            self.signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            self.code = 128 + self.signal if self.signal is not None else os.WEXITSTATUS(status)
            self._process.returncode = self.code

    def _stop(self) -> None:
        """The command was stopped from the terminal: so are we, until the shell lets both go on."""
        if self._terminal is None:
            return
        self._take_terminal()
        os.kill(os.getpid(), signal.SIGSTOP)
        with contextlib.suppress(OSError):
            if os.tcgetpgrp(self._terminal) == os.getpgrp():
                _give(self._terminal, self.pid)
            os.killpg(self.pid, signal.SIGCONT)

    def _take_terminal(self) -> None:
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                _give(self._terminal, os.getpgrp())

    def _send(self, number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            if number in TO_GROUP:
                os.killpg(self.pid, number)
            elif self.code is None:
                os.kill(self.pid, number)

    @contextlib.contextmanager
    def _forwarded(self) -> Iterator[None]:
        before = {}
        for number in TO_GROUP | TO_CHILD:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup: not for the command either
                before[number] = signal.signal(number, self._send)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _terminal() -> int | None:
    """The descriptor of the terminal, where we are in front of it."""
    with contextlib.suppress(OSError):
        if os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp():
            return 0
    return None


def _give(terminal: int, group: int) -> None:
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(terminal, group)
    finally:
        signal.signal(signal.SIGTTOU, before)
