"""A live job with everything that can be seen of it, as time goes on: who turns the handle calls `tick`."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from stepscope.model.error import UsageError
from stepscope.simulate.config import Config, Recording
from stepscope.simulate.counter import process
from stepscope.simulate.counter.place import Place, num_nodes, places
from stepscope.simulate.serve.clock import Clocks
from stepscope.simulate.serve.exporter import Node
from stepscope.simulate.serve.live import BEGIN_NS, Hang, Live
from stepscope.simulate.serve.log import Logs
from stepscope.simulate.serve.player import LivePlayer
from stepscope.simulate.serve.rank import LiveRank
from stepscope.simulate.serve.switch import RESTART_PERIOD, Switchboard, Switched, listed
from stepscope.simulate.serve.truth import truth_of
from stepscope.simulate.write import truth_path

KEPT = ("run", "logs", "telemetry")
"""What lies in the folder of a live job."""
FORGET_NS = 1_000_000_000
"""Of simulated time, from one forgetting to the next."""
APPS_BYTES = 16 << 20
"""Of a list of processes: then it is begun anew."""


class Service:
    """A live job in a folder. All methods may be called from any thread."""

    def __init__(
        self, config: Config, out: str | os.PathLike[str], clocks: Clocks, *, has_events: bool = False,
        boot_id: str = "", scale: float = 1.0,
    ) -> None:  # fmt: skip
        """UsageError where the folder cannot be used."""
        self.config, self.clocks = config, clocks
        self.recording = config.telemetry or Recording()
        self.board = Switchboard(config, has_events)
        self.live = live = Live(config, self.board)
        self.folder = Path(os.path.abspath(out))
        self._asked, self._scale = out, scale
        self._lock = threading.RLock()
        self.now_ns = BEGIN_NS
        self._forgotten_ns = BEGIN_NS
        self.is_over = False
        self.ranks: list[LiveRank] = []
        live.before.append(self._before)
        live.after.append(self._after)
        live.hung.append(self._hung)
        self.places: list[Place] = places(live.config)
        self._make_folder()
        live.play(BEGIN_NS)  # the first step, before anybody listens: what is set by people is in its plan
        self.nodes = [Node(live, at, self.places, self.recording) for at in range(num_nodes(config))]
        self._listed_ns = [BEGIN_NS + process.EVERY_NS // 10 for _ in self.nodes]
        for node in self.nodes:
            node.counted = self._counted
        self.logs = Logs(live, self.folder / "logs", self.places, clocks.of_trace(), self.recording)
        self.ranks += [
            self._rank(player, place, boot_id)
            for player, place in zip(live.players, self.places, strict=True)
        ]
        self._after(0, live.players, self.board.on(0))
        self._write_truth()

    # ── time ────────────────────────────────────────────────────────────────────────────────────────

    def tick(self, now_ns: int) -> None:
        """Let everything happen up to this true time."""
        with self._lock:
            if self.is_over:
                return
            now_ns = self.now_ns = max(self.now_ns, now_ns)
            self.live.play(now_ns)
            for node in self.nodes:
                node.advance(now_ns)
            for rank in self.ranks:
                rank.flush(now_ns)
            self.logs.flush(now_ns)
            if now_ns - self._forgotten_ns >= FORGET_NS:
                self._forgotten_ns = now_ns
                self.live.forget(min(node.edge_ns for node in self.nodes) - FORGET_NS)

    @property
    def next_ns(self) -> int:
        """When something is to happen next."""
        with self._lock:
            due = [rank.next_ns for rank in self.ranks]
            found = [at for at in due if at is not None] + [node.next_ns for node in self.nodes]
            if self.live.dead_ns is None and self.live.hang is None:
                found.append(self.live.next_ns)
            return min(found)

    def pause(self, until_ns: int) -> None:
        """The machine slept until then, and the job with it."""
        with self._lock:
            self.live.pause(until_ns)

    def end(self, is_complete: bool) -> None:
        """The processes end now: rings are let go, with a last word in each. `is_complete`: by themselves."""
        with self._lock:
            if self.is_over:
                return
            self.is_over = True
            if is_complete and self.live.dead_ns is None:
                done = sum(at <= self.now_ns for at in self.live.players[0].step_end_ns)
                self.logs.ended(self.now_ns, self.live.players[0].first_kept + done)
            for rank in self.ranks:
                rank.exits(self.now_ns, is_killed=False)
            self.logs.flush(self.now_ns)
            self._write_truth()

    # ── what can be asked for ───────────────────────────────────────────────────────────────────────

    def devices(self, node: int) -> str:
        """What a node's device exporter prints now."""
        with self._lock:
            return self.nodes[node].devices(self.now_ns)

    def host(self, node: int) -> str:
        """What its host's exporter prints now."""
        with self._lock:
            return self.nodes[node].metrics(self.now_ns, self.clocks.real(self.now_ns))

    def faults(self) -> dict[str, Any]:
        """What is on, and the step that is played next."""
        with self._lock:
            step = self.live.step
            made: dict[str, Any] = {"next_step": step, "on": [listed(each) for each in self.board.on(step)]}
            if self.live.hang is not None:
                made["hangs_in_step"] = self.live.hang.step
            if self.live.dead_ns is not None:
                made["is_dead"] = True
            return made

    def switch(self, text: str) -> str:
        """`NAME[#RANK][:SEVERITY] [on|off]`, `all off`; says what was done. UsageError with what to write
        instead."""
        words = text.split()
        if not 1 <= len(words) <= 2 or (len(words) == 2 and words[1] not in ("on", "off")):
            raise UsageError(f"fault {text[:80]}: is not understood; give NAME[#RANK][:SEVERITY] on or off")
        with self._lock:
            step = self.live.step
            if words[-1] == "off":
                num = self.board.switch_off(words[0], step)
                told = f"{num} off from step {step}\n"
            else:
                told = f"{listed(self.board.switch_on(words[0], step))['fault']} on from step {step}\n"
            self._write_truth()
            return told

    def event(self, text: str) -> str:
        """`exporter-restart[#NODE]`, `vanish#RANK` or `return#RANK`; says what was done. UsageError."""
        name, _, number = text.strip().partition("#")
        at = int(number) if number.isdecimal() else 0
        with self._lock:
            if name == "exporter-restart" and at < len(self.nodes):
                self.nodes[at].restart(self.now_ns)
            elif name in ("vanish", "return") and number.isdecimal() and at < len(self.ranks):
                gone = self.nodes[self.places[at].node].gone
                (gone.add if name == "vanish" else gone.discard)(at)
            else:
                known = "exporter-restart[#NODE], vanish#RANK or return#RANK"
                raise UsageError(f"event {text[:80]}: is not known; give {known}")
        return f"{name}\n"

    # ── what happens ────────────────────────────────────────────────────────────────────────────────

    def _before(self, step: int, _players: list[LivePlayer], _switched: tuple[Switched, ...]) -> None:
        for rank in self.ranks:
            rank.before(step)

    def _after(self, step: int, _players: list[LivePlayer], _switched: tuple[Switched, ...]) -> None:
        if not self.ranks:
            return  # the first step, before they are there
        row = self.logs.step(step)
        for rank in self.ranks:
            rank.after(step, (row.loss, row.grad_norm, row.learning_rate))
        if self.board.has_events and step % RESTART_PERIOD == RESTART_PERIOD - 1:
            for node in self.nodes:
                node.restart(self.now_ns)

    def _hung(self, hang: Hang, over_ns: int | None) -> None:
        is_dead = over_ns is not None and any(
            each.number == hang.number for each in self.board.on(self.live.step)
        )
        for rank in self.ranks:
            if over_ns is None:
                rank.hangs(hang)
            elif is_dead:
                rank.exits(over_ns, is_killed=True)
            else:
                rank.resumes(hang, over_ns)
        if over_ns is not None and is_dead:
            self.logs.died(hang, over_ns)
        self._write_truth()

    def _counted(self, node: Node, first_ns: int) -> None:
        """Another stretch of a node's time is known."""
        self.logs.devices(node.states, first_ns)
        if first_ns < self._listed_ns[node.number]:
            return
        self._listed_ns[node.number] += process.EVERY_NS
        is_on = self.live.dead_ns is None or first_ns < self.live.dead_ns
        others = [process.pid_of_other(self.config.seed, place) for place in node.places]
        text = process.listed(self.clocks.real(first_ns), node.states, node.places, others, 0, is_on)
        path = self.folder / "telemetry" / f"node{node.number}.apps.csv"
        is_new = not path.exists() or path.stat().st_size > APPS_BYTES
        with path.open("w" if is_new else "a", encoding="utf-8") as file:
            file.write((process.HEADER if is_new else "") + text)

    # ── files ───────────────────────────────────────────────────────────────────────────────────────

    def _make_folder(self) -> None:
        out = self._asked
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            strange = sorted(each.name for each in self.folder.iterdir() if each.name not in KEPT)
            for name in KEPT:
                (self.folder / name).mkdir(exist_ok=True)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UsageError(f"{out}: cannot be used: {why}; give another folder to --out") from error
        if strange:
            raise UsageError(
                f"{out}: holds {strange[0]}, which is of no live job; give an empty folder to --out"
            )

    def _rank(self, player: LivePlayer, place: Place, boot_id: str) -> LiveRank:
        job = f"simulated-{self.config.seed}"
        identity: dict[str, str | int] = {
            "pid": place.pid, "rank": place.rank, "local_rank": place.local_rank,
            "world_size": self.config.ranks, "restart": 0, "job": job,
            "run": f"{job}-{self.clocks.real_ns:x}", "host": place.host, "script": "train.py",
            "boot_id": f"{boot_id}-{place.node}" if place.node else boot_id, "framework": "torch, simulated",
            "device_uuids": place.uuid,
        }  # fmt: skip
        folder = self.folder / "run"
        try:
            return LiveRank(self.live.config, player, place, self.clocks, folder, identity)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UsageError(
                f"{folder}: no ring can be made there: {why}; give another folder to --out"
            ) from error

    def _write_truth(self) -> None:
        """What is true of the job, beside its folder."""
        told = truth_of(self.live, self.places, self.clocks, self.now_ns, self._scale)
        path = truth_path(self.folder)
        unfinished = path.with_name(f".{path.name}.part")
        unfinished.write_text(json.dumps(told) + "\n", encoding="utf-8")
        os.replace(unfinished, path)
