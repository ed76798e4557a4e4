"""The tables of the store's file.

A row of `raw_*` is one moment of one owner, one column a signal; columns are added as signals appear.
`owner`, `source`, `labels`, `missing` and `ring` are numbers of texts (`name`, `ring`); `n` is the number of
the request that brought the row, ascending, so that what is sealed and what came meanwhile are told apart.
"""

from __future__ import annotations

VERSION = 1
KINDS = ("device", "host", "process", "link")
"""Tables of samples, by kind of owner."""
SEALED = (*KINDS, "mark", "line")
"""Tables whose hours are sealed."""
FIXED = ("at_ns", "owner", "source", "labels", "window_ns", "missing", "n")
"""Columns of a table of samples that are no signal."""
ROLLUPS = ("minute", "hour", "day", "week")
MARK_COLUMNS = ("ring", "number", "at_ns", "record_kind", "flags", "step", "mono_ns", "a", "b", "c", "n")
LINE_COLUMNS = ("at_ns", "host", "log", "name", "labels", "agent", "text", "n")
ROLLUP_COLUMNS = (
    "kind", "signal", "owner", "source", "at_ns", "mean", "least", "most", "last", "p95", "num", "increase",
    "bits",
)  # fmt: skip

_SAMPLES = (
    "at_ns BIGINT, owner INTEGER, source INTEGER, labels INTEGER, window_ns BIGINT, missing INTEGER, n BIGINT"
)
_ROLLUP = (
    "kind VARCHAR, signal INTEGER, owner INTEGER, source INTEGER, at_ns BIGINT, mean DOUBLE, least DOUBLE, "
    "most DOUBLE, last DOUBLE, p95 DOUBLE, num BIGINT, increase DOUBLE, bits BIGINT"
)
TABLES: dict[str, str] = {
    "meta": "name VARCHAR, value VARCHAR",
    "name": "kind VARCHAR, id INTEGER, text VARCHAR",
    "ack": "agent VARCHAR, seq BIGINT, newest_ns BIGINT, n BIGINT, held VARCHAR",
    "ring": "id INTEGER, body VARCHAR, n BIGINT",
    "event": "at_ns BIGINT, host VARCHAR, what VARCHAR, text VARCHAR, code BIGINT, owner VARCHAR, "
    "labels INTEGER, agent VARCHAR, n BIGINT",
    **{f"raw_{kind}": _SAMPLES for kind in KINDS},
    "raw_mark": "ring INTEGER, number BIGINT, at_ns BIGINT, record_kind INTEGER, flags INTEGER, step BIGINT, "
    "mono_ns BIGINT, a BIGINT, b DOUBLE, c DOUBLE, n BIGINT",
    "raw_line": "at_ns BIGINT, host VARCHAR, log VARCHAR, name VARCHAR, labels INTEGER, agent VARCHAR, "
    "text VARCHAR, n BIGINT",
    **dict.fromkeys(ROLLUPS, _ROLLUP),
    "stretch": "kind VARCHAR, owner INTEGER, labels INTEGER, start_ns BIGINT, first_ns BIGINT, "
    "last_ns BIGINT",
    "piece": "path VARCHAR, kind VARCHAR, start_ns BIGINT, end_ns BIGINT, num_rows BIGINT, num_bytes BIGINT, "
    "columns VARCHAR",
    "document": "kind VARCHAR, id VARCHAR, job VARCHAR, run VARCHAR, at_ns BIGINT, body BLOB",
    "trace": "job VARCHAR, run VARCHAR, capture BIGINT, ring VARCHAR, rank BIGINT, path VARCHAR, "
    "is_whole BOOLEAN, num_bytes BIGINT, at_ns BIGINT",
}
ADDED = {"ack": "held VARCHAR"}
"""Columns that files of this version may lack: added where they do."""
