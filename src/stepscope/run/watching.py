"""All that `stepscope run` does beside the command, behind a wall: whatever fails here, the command is waited
for, and one line says what was lost."""

from __future__ import annotations

from collections.abc import Callable

from stepscope.model.text import Lang, Text
from stepscope.run.answer import diagnosed, fault_of
from stepscope.run.capture import Watch
from stepscope.run.folder import Folder
from stepscope.run.keep import Keeper

LOST = Text(
    en="the verdict is of what was kept: {why}",
    zh="结论仅基于已保留的数据：{why}",
)
FAULT = Text(
    en="marks were watched only for a part of the run, by a fault of stepscope ({why}); please report it",
    zh="stepscope 自身出错，只看到了部分运行的打点（{why}）；请报告此问题",
)


class Watching:
    """Keeps marks and captures where they cannot decide. None of its functions raises."""

    def __init__(self, folder: Folder, capture: int | None, lang: Lang) -> None:
        self._keeper = Keeper(folder.live, folder.kept)
        self._watch = Watch(self._keeper, capture, lambda: diagnosed(folder, lang).report)
        self._fault: str | None = None

    @property
    def num_steps(self) -> int:
        """Steps that were seen to end."""
        return self._keeper.num_steps

    def tick(self) -> None:
        """Called again and again while the command runs."""
        if self._fault is None:
            self._walled(self._keeper.poll)
            self._walled(self._watch.tick)

    def end(self) -> None:
        """The command has ended."""
        self._walled(self._watch.end)
        self._walled(self._keeper.close)

    def fail(self, error: BaseException) -> None:
        """Take it that no more is watched."""
        self._fault = self._fault or fault_of(error)

    def lines(self, lang: Lang) -> list[str]:
        """What was lost and what failed, a line each."""
        lost = self._keeper.lost
        return [
            *([FAULT.in_(lang).format(why=self._fault)] if self._fault is not None else []),
            *([LOST.in_(lang).format(why=lost)] if lost is not None else []),
        ]

    def no_capture(self, lang: Lang) -> str | None:
        """Why an asked-for capture gave nothing; None where it gave a trace, or none was asked for."""
        return self._watch.line(lang)

    def _walled(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001  the wall between watching and the command
            self.fail(error)
