"""The store's file: one process owns it, one transaction writes at a time, any number reads beside it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from stepscope.model.error import InputError, RefusedError, UsageError
from stepscope.store.error import StoreFullError
from stepscope.store.schema import ADDED, TABLES, VERSION

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

FILE, LOCK = "store.duckdb", "lock"
_MEND = "restore it from a copy, or move the folder away and begin anew"


class Database:
    """Opens the file, keeps others off it and opens it again after a failure.

    RefusedError where another process has it, UsageError without DuckDB, InputError where it is damaged.
    """

    def __init__(
        self,
        folder: str,
        *,
        memory_bytes: int,
        threads: int,
        free_bytes: Callable[[], int],
        reserve_bytes: int,
    ) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise UsageError(
                f"{folder}: the store needs an extra; pip install 'stepscope[server]'"
            ) from error
        self._duckdb = duckdb
        self.folder = folder
        self.lock = threading.RLock()
        self._free_bytes, self._reserve_bytes = free_bytes, reserve_bytes
        self._config: dict[str, str | bool | int | float | list[str]] = {
            # No command waits for a network that it did not ask for.
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": f"{memory_bytes >> 20}MiB",
            "threads": threads,
            "preserve_insertion_order": "false",
            "wal_autocheckpoint": "64MiB",
            "temp_directory": os.path.join(folder, "temp"),
        }
        self.failed: Callable[[], None] = lambda: None
        """Called after a write that failed, the file open again: what is remembered of it may be wrong."""
        try:
            os.makedirs(folder, exist_ok=True)
            self._lock_file = os.open(
                os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            what = f"cannot be opened ({error.strerror})"
            raise InputError(folder, what, "give a folder that can be written") from error
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock_file)
            what = "another stepscope server has this store open"
            raise RefusedError(f"{folder}: {what}; end it, or give another folder") from error
        try:
            self._root: Cursor | None = None
            self._writer: Cursor | None = None
            self._open()
        except BaseException:
            os.close(self._lock_file)
            raise

    def _open(self) -> None:
        path = os.path.join(self.folder, FILE)
        try:
            root = self._duckdb.connect(path, config=self._config)
        except self._duckdb.Error as error:
            raise InputError(path, f"DuckDB cannot open it ({first_line(error)})", _MEND) from error
        try:
            # A picture of 90 days opens 90 files; what their ends say is a third of its time.
            root.execute("SET GLOBAL parquet_metadata_cache = true")
            there = {str(row[0]) for row in root.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
            if not there >= set(TABLES):
                root.execute("BEGIN")
                for name, columns in TABLES.items():
                    root.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
                if "meta" not in there:
                    root.execute("INSERT INTO meta VALUES ('version', ?)", [str(VERSION)])
                root.execute("COMMIT")
            for name, column in ADDED.items():
                root.execute(f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS {column}")
            found = root.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
        except self._duckdb.Error as error:
            root.close()
            raise InputError(path, f"DuckDB cannot read it ({first_line(error)})", _MEND) from error
        if found is None or found[0] != str(VERSION):
            root.close()
            what = f"a store of version {found[0] if found else 'unknown'}, known is {VERSION}"
            raise InputError(path, what, "use the stepscope that wrote it, or a newer one")
        self._root, self._writer = root, root.cursor()

    @property
    def error(self) -> type[Exception]:
        """DuckDB's own errors."""
        return self._duckdb.Error

    def cursor(self) -> Cursor:
        """One's own look at the file, to be closed by who asked."""
        with self.lock:
            if self._root is None:
                self._open()
            assert self._root is not None
            return self._root.cursor()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Cursor]:
        """One snapshot."""
        cursor = self.cursor()
        try:
            cursor.execute("BEGIN")
            yield cursor
        finally:
            with contextlib.suppress(self._duckdb.Error):
                cursor.execute("ROLLBACK")
            cursor.close()

    @contextlib.contextmanager
    def writing(self, cursor: Cursor | None = None) -> Iterator[Cursor]:
        """One transaction, on the disk when it is left. StoreFullError where it cannot be; what it did is
        undone then."""
        with self.lock:
            self.has_room()
            try:
                if self._root is None:
                    self._again()
                used = cursor or self._writer
                assert used is not None
                used.execute("BEGIN")
                yield used
                used.execute("COMMIT")
            except self._duckdb.Error as error:
                self._again()
                raise StoreFullError(self.folder, first_line(error)) from error
            except InputError as error:
                raise StoreFullError(self.folder, error.what) from error
            except BaseException:
                if self._writer is not None:
                    self._again()
                raise

    def has_room(self) -> None:
        """StoreFullError where the disk has no room left."""
        free = self._free_bytes()
        if free < self._reserve_bytes:
            raise StoreFullError(
                self.folder, f"{free >> 20} MB are free, {self._reserve_bytes >> 20} are needed"
            )

    def _again(self) -> None:
        """Open the file anew: a write that failed may have left the engine refusing everything."""
        self._shut()
        try:
            self._open()
            self.failed()
        except (InputError, self._duckdb.Error):
            self._shut()  # the next one tries again

    def _shut(self) -> None:
        for each in (self._writer, self._root):
            if each is not None:
                with contextlib.suppress(self._duckdb.Error):
                    each.close()
        self._root = self._writer = None

    def close(self) -> None:
        """Let go of the file and of the folder."""
        with self.lock:
            self._shut()
            if self._lock_file >= 0:
                os.close(self._lock_file)
                self._lock_file = -1


def first_line(error: BaseException) -> str:
    """The first line of an engine's error, short."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
