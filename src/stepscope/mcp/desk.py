"""What the tools share: which files may be read, and the reports that were made of them."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope import offline
from stepscope.mcp.root import Roots
from stepscope.model import redact
from stepscope.model.error import UsageError
from stepscope.model.report import Report
from stepscope.model.text import Lang

MAX_REPORTS = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """A report at hand: its handle, the language it is in, and the links that were left out."""

    handle: str
    report: Report
    lang: Lang
    strays: tuple[str, ...] = ()


class Desk:
    """Reports by what was asked: the same files with the same options are read once.

    The least recently used is forgotten first. Of the same question asked twice at a time the second waits
    for the first; different ones do not wait for each other.
    """

    def __init__(
        self,
        roots: Roots,
        *,
        doctor: Callable[[], Any],
        lang: Lang = "en",
        redact_key: str | None = None,
        diagnose: Callable[..., offline.Diagnosed] = offline.diagnosed,
    ) -> None:
        self.roots = roots
        self.doctor = doctor
        self.lang = lang
        self._redact_key = redact_key
        self._key = redact_key.encode() if redact_key else redact.key_of_inputs(roots.folders)
        self._diagnose = diagnose
        self._lock = threading.Lock()
        self._reports: OrderedDict[str, Asked] = OrderedDict()
        self._running: dict[str, threading.Lock] = {}

    def diagnose(
        self, paths: Sequence[str], *, steps: tuple[int, int] | None, rank: int | None, lang: Lang
    ) -> Asked:
        """The report of these paths; made where it is not at hand or a file has changed."""
        found = self.roots.files(paths)
        files = found.traces
        question = [[f.path, f.mtime_ns, f.size] for f in files], found.strays, steps, rank, lang
        handle = "r-" + hashlib.sha256(json.dumps(question).encode()).hexdigest()[:10]
        with self._lock:
            running = self._running.setdefault(handle, threading.Lock())
        try:
            with running:
                known = self._known(handle)
                if known is None:
                    made = self._diagnose(
                        [each.path for each in files],
                        steps=steps,
                        rank=rank,
                        lang=lang,
                        redact_key=self._redact_key,
                        shown_as={each.path: each.name for each in files},
                    )
                    strays = tuple(_shown(each, made.redaction) for each in found.strays)
                    known = self._keep(Asked(handle, made.report, lang, strays))
        finally:
            with self._lock:
                self._running.pop(handle, None)
        return known

    def shown(self, text: str) -> str:
        """A text that speaks of files, as an agent may see it: paths from a root on, no secrets, pseudonyms.

        Their key is of the roots where the site has none: no input's digest is at hand.
        """
        plain, _ = redact.without_secrets(self.roots.relative(text))
        known = redact.identities_in_text(plain)
        for path in (*self.roots.folders, *filter(lambda word: "/" in word, re.split(r"[\s'\"]+|::", plain))):
            known = known | redact.identities_in_path(path)
        return redact.Pseudonyms(self._key, known).apply(plain)

    def report(self, handle: str) -> Asked:
        """A report by its handle. Raises UsageError for one that is not at hand (any more)."""
        known = self._known(handle)
        if known is None:
            raise UsageError(f"no report {handle[:40]!r} is at hand; call diagnose with the paths")
        return known

    def _known(self, handle: str) -> Asked | None:
        with self._lock:
            if handle in self._reports:
                self._reports.move_to_end(handle)
            return self._reports.get(handle)

    def _keep(self, asked: Asked) -> Asked:
        with self._lock:
            self._reports[asked.handle] = asked
            while len(self._reports) > MAX_REPORTS:
                self._reports.popitem(last=False)
        return asked


def _shown(path: str, redaction: redact.Redaction) -> str:
    """A path from a root on, under the pseudonyms of the report that it stands beside."""
    plain, _ = redact.without_secrets(path)
    known = redaction.known | redact.identities_in_path(path)
    return redact.Pseudonyms(redaction.key, known).apply(plain)
