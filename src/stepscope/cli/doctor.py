"""`stepscope doctor`: what this machine offers, what is missing, and the exact line to add.

Looks at files, at the driver's library and at loopback; sends nothing to any other machine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import click
import msgspec

from stepscope.cli import option

if TYPE_CHECKING:
    from stepscope.model.text import Lang
    from stepscope.views.page import Page

State: TypeAlias = Literal["ok", "missing", "note"]


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing looked at. `add` is the exact line that would bring it."""

    name: str
    state: State
    found: str
    add: str | None = None


# (port, who usually listens there, what its page holds)
EXPORTERS: tuple[tuple[int, str, str], ...] = (
    (9400, "dcgm-exporter", "DCGM_FI_"),
    (9445, "GPU exporter", "nvidia_gpu_"),
    (9835, "nvidia_gpu_exporter", "nvidia_smi_"),
    (9100, "node exporter", "node_"),
)
LOOPBACK_TIMEOUT_SECONDS = 0.3


@click.command("doctor", short_help="What this machine offers, and what is missing.")
@option.format_option("text", "json")
@option.lang_option
@option.debug_option
def command(form: str, lang: Lang) -> int:
    """Say what this machine offers for a diagnosis, what is missing and the exact line to add."""
    from stepscope.views.label import YOUR_TRACE

    checks = examine()
    if form == "json":
        answer = {"schema": "stepscope.doctor/1", "checks": checks, "next": YOUR_TRACE.en}
        option.put(msgspec.json.encode(answer) + b"\n", None)
        return 0
    from stepscope.views.label import colon, word
    from stepscope.views.page import Page

    page = Page(option.console(), lang)
    _print(checks, page)
    page.gap()
    page.command(f"{word('next', lang)}{colon(lang)}", YOUR_TRACE.in_(lang))
    return 0


def _print(checks: list[Check], page: Page) -> None:
    """Three columns, and the line to add below the last of them: whole, so that it can be copied."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    from stepscope.cli import doctor_zh
    from stepscope.views.page import wrapped

    zh = page.lang == "zh"
    colours = {"ok": "green", "missing": "yellow", "note": "dim"}
    states = [doctor_zh.STATES[check.state] if zh else check.state for check in checks]
    names = [doctor_zh.NAMES.get(check.name, check.name) if zh else check.name for check in checks]
    wide_state, wide_name = (max(map(cell_len, column)) + 2 for column in (states, names))
    indent = wide_state + wide_name
    for check, state, name in zip(checks, states, names, strict=True):
        found = doctor_zh.in_chinese(check.found) if zh else check.found
        first, *rest = wrapped(page.text(found).plain, max(20, page.width - indent))
        page.put(
            Text.assemble(
                page.text(set_cell_size(state, wide_state), colours[check.state]),
                page.text(set_cell_size(name, wide_name)),
                first,
            )
        )
        for line in rest:
            page.line(line, indent=indent)
        if check.add:
            page.verbatim(check.add, "bold", indent=indent)


def examine() -> list[Check]:
    """Every check, in the order in which they matter."""
    from stepscope.cli.doctor_mark import clock, run_folder

    looks: tuple[Callable[[], list[Check]], ...] = (
        _loader, _torch, _nvidia, _counters, _other_devices, _exporters, _py_spy, _kernel_log,
        _room, run_folder, clock,
    )  # fmt: skip
    return [check for look in looks for check in look()]


def _loader() -> list[Check]:
    from stepscope.offline import has_native_loader
    from stepscope.version import VERSION

    if has_native_loader():
        return [Check("stepscope", "ok", f"{VERSION}, native loader")]
    return [
        Check(
            "stepscope",
            "missing",
            f"{VERSION}, fallback loader: same answers, about seven times slower on large traces",
            "apt install g++ && pip install --force-reinstall --no-cache-dir --no-binary stepscope stepscope",
        )
    ]


def _torch() -> list[Check]:
    from importlib import metadata

    try:
        return [Check("torch", "ok", metadata.version("torch"))]
    except metadata.PackageNotFoundError:
        return [
            Check(
                "torch",
                "note",
                "not in this environment: traces are read all the same, none can be recorded here",
            )
        ]


def _nvidia() -> list[Check]:
    found: list[Check] = []
    try:
        import pynvml

        pynvml.nvmlInit()
    except ImportError:
        found.append(
            Check(
                "NVIDIA driver", "missing", "its Python binding is not installed", "pip install nvidia-ml-py"
            )
        )
    except pynvml.NVMLError as error:
        found.append(Check("NVIDIA driver", "note", f"no usable driver: {error}"))
    else:
        try:
            count = pynvml.nvmlDeviceGetCount()
            names = sorted(
                {_text(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i))) for i in range(count)}
            )
            version = _text(pynvml.nvmlSystemGetDriverVersion())
            found.append(
                Check("NVIDIA driver", "ok", f"{version}, {count} × {', '.join(names) or 'no device'}")
            )
        except pynvml.NVMLError as error:
            found.append(Check("NVIDIA driver", "note", f"present, but refuses: {error}"))
        finally:
            pynvml.nvmlShutdown()
    if shutil.which("nvidia-smi"):
        found.append(Check("nvidia-smi", "ok", str(shutil.which("nvidia-smi"))))
    elif found and found[-1].state == "ok":
        found.append(
            Check("nvidia-smi", "missing", "the driver is there, its tool is not", "apt install nvidia-utils")
        )
    return found


def _counters() -> list[Check]:
    """Who may read the profiling counters (SM, tensor, DRAM active): the driver's own parameter says."""
    try:
        text = Path("/proc/driver/nvidia/params").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    restricted = next(
        (line.split(":")[1].strip() for line in text.splitlines() if line.startswith("RmProfilingAdminOnly")),
        None,
    )
    if restricted == "0" or os.geteuid() == 0:
        return [Check("profiling counters", "ok", "allowed for this user")]
    return [
        Check(
            "profiling counters",
            "missing",
            "for administrators only (RmProfilingAdminOnly: 1)",
            "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0'"
            " | sudo tee /etc/modprobe.d/nvidia-profiling.conf   # then reboot",
        )
    ]


def _other_devices() -> list[Check]:
    found = []
    if Path("/dev/kfd").exists():
        tool = shutil.which("amd-smi") or shutil.which("rocm-smi")
        found.append(
            Check("AMD driver", "ok", tool)
            if tool
            else Check("AMD driver", "missing", "device found, no amd-smi", "apt install amd-smi-lib")
        )
    if any(Path("/dev").glob("davinci[0-9]*")):
        tool = shutil.which("npu-smi")
        found.append(Check("Ascend driver", "ok" if tool else "note", tool or "device found, no npu-smi"))
    return found


def _exporters() -> list[Check]:
    found = []
    for port, name, prefix in EXPORTERS:
        page = _page(port)
        if page is not None:
            known = "serves its metrics" if prefix in page else "answers, with other metrics"
            found.append(Check(name, "ok" if prefix in page else "note", f"127.0.0.1:{port} {known}"))
    if not found:
        found.append(
            Check("exporters", "note", "none on this machine's loopback (ports 9400, 9445, 9835, 9100)")
        )
    return found


def _page(port: int) -> str | None:
    """The first part of a metrics page on loopback; `None` where nobody answers in time."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LOOPBACK_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read(1_000_000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _kernel_log() -> list[Check]:
    """Whether the agent could read Xids and out-of-memory kills where the kernel writes them."""
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        why = (error.strerror or "no reason given").lower()
        return [Check("kernel log", "note", f"not for this user ({why}): the agent goes without it")]
    return [Check("kernel log", "ok", "/dev/kmsg may be read")]


def _py_spy() -> list[Check]:
    tool = shutil.which("py-spy")
    if tool is None:
        return [Check("py-spy", "missing", "the least capture for a host that is late", "pip install py-spy")]
    try:
        scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip()
    except OSError:
        scope = "0"
    if scope != "0" and os.geteuid() != 0:
        return [
            Check(
                "py-spy",
                "missing",
                f"{tool}, but this user may not attach",
                "sudo sysctl kernel.yama.ptrace_scope=0",
            )
        ]
    return [Check("py-spy", "ok", tool)]


def _room() -> list[Check]:
    import tempfile

    found = []
    for name, folder in (("room for traces", tempfile.gettempdir()), ("shared memory", "/dev/shm")):
        try:
            free = shutil.disk_usage(folder).free
        except OSError:
            continue
        state: State = "ok" if free >= 1_000_000_000 else "note"
        found.append(Check(name, state, f"{free / 1e9:.1f} GB free in {folder}"))
    return found


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
