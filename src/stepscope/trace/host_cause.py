"""What a host row means for a device that idles: one table, in the order in which causes win.

The order and the definitions are in docs/reference/accounting.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from stepscope.model.trace import I32, Trace
from stepscope.trace.category import HOST_KINDS, Kind, is_of

ORDER = (
    "checkpoint",
    "eval",
    "profiler",
    "compile",
    "gc",
    "input",
    "allocator",
    "copy_wait",
    "host_sync",
    "logging",
    "peer",
    "launch",
    "python",
    "unknown",
)
"""Causes of a host instant, the strongest first."""
RANK = {cause: rank for rank, cause in enumerate(ORDER)}
PHASES = ("checkpoint", "eval")
NUM_CAUSES = len(ORDER)

_MARK = (Kind.ANNOTATION,)
_FRAME = (Kind.PYTHON,)
_CALL = (Kind.CALL,)
_ANY = (Kind.OP, Kind.ANNOTATION, Kind.PYTHON)
_NAMED = (Kind.OP, Kind.ANNOTATION)


@dataclass(frozen=True, slots=True)
class CauseRow:
    """Rows of one of `kinds` whose name the pattern finds have this cause."""

    cause: str
    kinds: tuple[Kind, ...]
    pattern: re.Pattern[str]


def _row(cause: str, kinds: tuple[Kind, ...], pattern: str, flags: int = 0) -> CauseRow:
    return CauseRow(cause, kinds, re.compile(pattern, flags))


_I = re.IGNORECASE


def _then(words: str) -> str:
    """The end of a phrase, or one of the words that may go on with it: any other names something else
    (`get_batch_logps`, `evaluate_actions`, `checkpoint_block`)."""
    return rf"(?:[_ ]*(?:$|[^a-z_ (])|[_ ](?:{words})(?:$|[^a-z]))"


_NOT_WRITTEN = (
    r"(activation|gradient[_ -]?checkpoint|recomput|backward|state_dict_\w*hook"
    r"|(^|[^a-z])(inputs?|hidden|kv|cache)($|[^a-z]))"
)
"""What is kept on the device for the backward pass or the next token is saved too, and not written."""

TABLE: tuple[CauseRow, ...] = (
    # Activation checkpointing recomputes, it saves nothing, and goes by the same name: a mark must say that
    # it saves, or be the bare word.
    _row(
        "checkpoint",
        _MARK,
        rf"^(?!.*{_NOT_WRITTEN}).*?"
        r"(^(## ?)?(model[_ ])?(checkpoint(ing)?s?|ckpt)( ?##)?$"
        r"|(^|[^a-z])(sav(e|ing)|writ(e|ing)|dump(ing)?|stor(e|ing)|upload(ing)?|export(ing)?)[_ -]"
        r"([a-z]+[_ -]){0,3}(checkpoints?|ckpt)($|[^a-z])"
        r"|(^|[^a-z])(checkpoint(ing)?|ckpt)[_ -](sav(e|ing)|writ(e|ing)|dump|upload|io|hook|callback|step)"
        r"($|[^a-z])"
        r"|\[Callback\]ModelCheckpoint|(^|[^a-z])dcp[_.](async_)?save|maybe_finalize_async_save"
        r"|(^|[^a-z])save_(model|(train(ing|er)?_)?state([_ ]dict)?|pretrained)(\(|"
        + _then(
            "weights|state|states|checkpoint|ckpt|and|to|at|on|in|step|epoch|async|sync|sharded|full|final"
            "|best|last|latest|file|disk|rank"
        )
        + r"))",
        _I,
    ),
    _row("checkpoint", _FRAME, r"torch/serialization\.py\(\d+\): (save|_save|_legacy_save)$"),
    _row("checkpoint", _FRAME, r"torch/distributed/checkpoint/.*: (save|async_save|save_state_dict)$"),
    _row(
        "eval",
        _MARK,
        r"^(## ?)?_?((run|do|start|model|full|periodic|online|trainer|the)[_ :]{1,2})?"
        r"(eval(uat(e|ion|ing))?|validat(e|ion|ing)|(val(id(ation)?)?|test)(?=[_ ](step|loop|epoch|batch)))"
        + _then(
            "step|loop|epoch|run|phase|round|batch|model|set|dataset|data|start|end|hook|callback|pass|and"
        )
        + r"|\[_?Evaluation(Loop|EpochLoop)\]|(^|[^a-z])on_(validation|test)_|\.(validation|test)_step$"
        r"|^estimate_loss$",
        _I,
    ),
    # Kineto files lazy loading of kernels under overhead; it is the driver's compile-and-load, not the
    # profiler.
    _row("compile", (Kind.OVERHEAD,), r"Lazy Function Loading"),
    _row("profiler", (Kind.OVERHEAD,), r""),
    _row("profiler", _FRAME, r"torch/(autograd/)?profiler(/profiler)?\.py\(\d+\): (?!increment_step)"),
    _row("profiler", _FRAME, r"<built-in method _?(enable|disable|prepare)_profiler"),
    _row(
        "compile",
        _NAMED,
        r"dynamo_timed|^_compile\.|compile_fx|inductor_(codegen|compile)|backward_compile|async_compile|triton.*autotun",
        _I,
    ),
    _row("compile", _FRAME, r"torch/_dynamo/(convert_frame|symbolic_convert|output_graph)\.py"),
    _row("compile", _FRAME, r"torch/_inductor/(compile_fx|codecache|async_compile|graph|scheduler)\.py"),
    _row("compile", _FRAME, r"triton/(compiler/compiler\.py\(\d+\): (compile|make_)|runtime/autotuner\.py)"),
    _row("compile", _CALL, r"^(cuModuleLoad|cuLibraryLoad|hipModuleLoad|nvrtc|cudaModuleLoad)"),
    _row("compile", _NAMED, r"cudnn(Find|_find|Get.*Algorithm)", _I),
    _row(
        "gc",
        _ANY,
        # Only gc's own: data frames have a method collect too. Functions of a module are bound to it.
        r"^Python GC|<built-in (function collect>|method collect of module )|^gc\.collect|^garbage.?collect",
        _I,
    ),
    _row("input", _NAMED, r"^enumerate\(DataLoader\)#|DataLoader.*__next__|_next_data", _I),
    _row(
        "input",
        _MARK,
        r"(^|[^a-z])(data[_ ]?load(er|ing)?s?|load[_ ]?(data|batch)"
        r"|(get|fetch|next)[_ -]?(train[_ -]?)?(batch|data)|wait[_ ]for[_ ](data|batch|input)"
        r"|batch[_ ]?(load|fetch)(ing)?|data[_ -](wait|fetch|time|iter(ator)?)"
        r"|next\(\w*(iter|loader)\w*\)"
        # What else is fetched ahead is weights: FSDP's backward_prefetch, ZeRO-3, key-value caches.
        r"|(data|batch|input|loader)[_ ]?prefetch(er|ing)?|prefetch[_ ]?(data|batch|input)(es|s)?"
        r"|input[_ ]?pipeline)"
        + _then(
            "from|on|in|of|for|next|time|wait|iter|iterator|step|thread|worker|queue|async|cpu|gpu|host|device"
            "|loop|start|end|hook|callback"
        ),
        _I,
    ),
    _row(
        "input",
        _FRAME,
        r"torch/utils/data/dataloader\.py\(\d+\): (__next__|_next_data|_get_data|_try_get_data)$",
    ),
    _row(
        "allocator",
        _CALL,
        r"^(cuda|hip)(Malloc|Free)(Host|Managed|Pitch|3D)?$|^(cuda|hip)(HostAlloc|HostMalloc|HostFree|HostRegister|HostUnregister|FreeHost|ExtMallocWithFlags)$"
        r"|^cu(da|hip)?Mem(Alloc|Free|Create|Release|Map|Unmap|AddressReserve|AddressFree|SetAccess)(_v2|Host|HostAlloc)?(_v2)?$|^hipMem(Create|Release|Map|Unmap)$",
    ),
    _row(
        "copy_wait",
        _CALL,
        r"^(cuda|hip)Memcpy(2D|3D|Peer|ToSymbol|FromSymbol|HtoD|DtoH|DtoD|WithStream)?$|^cuMemcpy(HtoD|DtoH|DtoD)?(_v2)?$",
    ),
    _row(
        "host_sync",
        _CALL,
        r"^(cuda|hip)(Stream|Device|Event|Thread)Synchronize$|^cu(Stream|Ctx|Event)Synchronize$|^(ze|ur|sycl).*(Synchronize|Wait)$",
    ),
    _row(
        "logging",
        _MARK,
        r"(^|[^a-z])(logging|log[_ ](metrics|step|scalars?)|tensorboard|wandb|mlflow)($|[^a-z])",
        _I,
    ),
    _row(
        "logging",
        _FRAME,
        r"(^|/)(logging/(__init__|handlers)|tqdm/(std|_tqdm)|torch/utils/tensorboard/(writer|summary)|tensorboard/.*|loguru/.*)\.py"
        r"|(^|/)(wandb|mlflow)/|<built-in function print>",
    ),
    _row(
        "peer",
        _NAMED,
        r"^(gloo|mpi|ucc):|^c10d::(monitored_)?barrier|torch\.distributed\.(barrier|monitored_barrier)",
    ),
    _row(
        "peer",
        _FRAME,
        r"torch/distributed/distributed_c10d\.py\(\d+\): "
        r"(barrier|monitored_barrier|.*_object.*|_store_based_barrier)$",
    ),
    _row("peer", _FRAME, r"<built-in method (get|wait) of .*(TCPStore|PrefixStore|FileStore|HashStore)"),
)

# Rows that only wait: for the autograd engine (its own threads do the work) or for a lock, a queue, a signal.
WAITING: tuple[tuple[tuple[Kind, ...], re.Pattern[str]], ...] = (
    (_NAMED, re.compile(r"^(## )?(torch\.autograd\.|Tensor\.|loss\.)?(run_)?backward(\(\))?( ##)?$")),
    (
        _FRAME,
        re.compile(
            r"<built-in method "
            r"(run_backward|acquire|wait|join|poll|select|epoll|sleep|__enter__ of _thread)\b"
        ),
    ),
    (_FRAME, re.compile(r"<built-in function (sleep|select|poll)>")),
    (_FRAME, re.compile(r"torch/(_tensor|autograd/__init__)\.py\(\d+\): backward$")),
    (_FRAME, re.compile(r"torch/autograd/graph\.py\(\d+\): _engine_run_backward$")),
    (
        _FRAME,
        re.compile(
            r"(^|/)(threading|queue|selectors|(asyncio|concurrent/futures|multiprocessing)/\w+)\.py\(\d+\): "
            r"(wait|wait_for|acquire|get|join|select|poll|result|recv)$"
        ),
    ),
)

STEP = re.compile(r"^ProfilerStep#(\d+)$")
# Frames that are open for as long as their thread lives say nothing about what it does.
THREAD_START = re.compile(
    r"(^|/)threading\.py\(\d+\): (_bootstrap|_bootstrap_inner|run)$"
    r"|multiprocessing/process\.py\(\d+\): _bootstrap$"
)

COLLECTIVE = re.compile(
    r"^(nccl|gloo|mpi|ucc|hccl|rccl|xccl):|^c10d::|^record_param_comms$|^_c10d_functional::"
)
LAUNCH_CALL = re.compile(
    r"^(cuda|hip)(Ext|Module|ExtModule|Graph)?Launch(Cooperative|MultiKernel|Host)?(Kernel|Func)?(ExC|Ex|MultiDevice)?(_ptsz|_spt)?$|^cuLaunch(Cooperative)?(Kernel|HostFunc)(Ex)?(_ptsz)?$"
    r"|^(cuda|hip)GraphLaunch|^cuGraphLaunch|^hipModuleLaunch|^hipExtLaunch|^runFunction|^(ur|ze)Enqueue.*Launch|^zeCommandListAppendLaunch"
)


@dataclass(frozen=True, slots=True)
class NameFacts:
    """What each (kind, name) says, as arrays over spans' `name_id` for each kind.

    `cause` (num_kinds, num_names) int32: rank in ORDER, -1 where the name has no cause of its own;
    the boolean arrays alike.
    """

    cause: I32
    is_waiting: np.ndarray
    is_step: np.ndarray
    is_thread_start: np.ndarray
    is_collective: np.ndarray
    is_launch_call: np.ndarray


def name_facts(trace: Trace, kinds: I32) -> NameFacts:
    """Judge every (kind, name) that occurs, once."""
    num_kinds, num_names = len(Kind), max(len(trace.names), 1)
    cause = np.full((num_kinds, num_names), -1, dtype=np.int32)
    flags = np.zeros((5, num_kinds, num_names), dtype=bool)
    host = is_of(kinds, *HOST_KINDS, Kind.OVERHEAD)
    occurs = np.zeros((num_kinds, num_names), dtype=bool)
    occurs[kinds[host], trace.spans.name_id[host]] = True
    rows_of = {kind: [row for row in TABLE if kind in row.kinds] for kind in Kind}
    for number, name_id in np.argwhere(occurs).tolist():
        kind = Kind(number)
        name = trace.names[name_id]
        for row in rows_of[kind]:
            if row.pattern.search(name):
                cause[kind, name_id] = RANK[row.cause]
                break
        flags[0, kind, name_id] = any(kind in where and pattern.search(name) for where, pattern in WAITING)
        flags[1, kind, name_id] = kind == Kind.ANNOTATION and STEP.match(name) is not None
        flags[2, kind, name_id] = kind == Kind.PYTHON and THREAD_START.search(name) is not None
        flags[3, kind, name_id] = kind in _NAMED and COLLECTIVE.search(name) is not None
        flags[4, kind, name_id] = kind == Kind.CALL and LAUNCH_CALL.search(name) is not None
    return NameFacts(cause, flags[0], flags[1], flags[2], flags[3], flags[4])
