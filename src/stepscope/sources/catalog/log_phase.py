"""Lines that state a phase of a job: start, compilation, checkpoints, evaluation, end."""

from __future__ import annotations

from stepscope.sources.formats.log_event import Row, row

_SECONDS = r"(?:[^\n]{0,80}?\bin (?P<seconds>[\d.]+) ?s(?:econds)?\b)?"

ROWS: tuple[Row, ...] = (
    # ── checkpoints: the end first, for some lines of an end hold the words of a start ──
    row("checkpoint", "checkpoint_end", "info", "finished saving the checkpoint",
        r"finished saving the checkpoint[^\n]{0,80}?in (?P<seconds>[\d.]+) ?s"),  # torchtitan
    row("checkpoint", "checkpoint_end", "info", ("successfully saved", "checkpoint"),
        r"successfully saved (?:\w+ )?checkpoint(?:[^\n]{0,60}?iteration\s+(?P<step>\d+))?"
        + _SECONDS),  # Megatron
    row("checkpoint", "checkpoint_end", "info", ("checkpoint", "is ready now"),
        r"Checkpoint (?:global_step)?(?P<step>\d+)? ?is ready now"),  # DeepSpeed
    row("checkpoint", "checkpoint_end", "info", "model weights saved in"),  # Transformers
    row("checkpoint", "checkpoint_end", "info", "checkpoint", r"\b(?:checkpoint saved|saved checkpoint)\b"
        r"(?:[^\n]{0,80}?step[ _=:]*(?P<step>\d+))?" + _SECONDS),
    row("checkpoint", "checkpoint_start", "info", ("checkpoint", "is about to be saved"),
        r"Checkpoint (?:global_step)?(?P<step>\d+)? ?is about to be saved"),
    row("checkpoint", "checkpoint_start", "info", "saving model checkpoint",
        r"saving model checkpoint(?: to [^\n]{0,400}?checkpoint-(?P<step>\d+))?"),
    row("checkpoint", "checkpoint_start", "info", "saving checkpoint",
        r"(?<!not )saving checkpoint(?:[^\n]{0,40}? iteration\s+(?P<step>\d+))?"),
    row("checkpoint", "checkpoint_start", "info", "saving the checkpoint"),
    row("checkpoint", "checkpoint_start", "info", "saving current state to"),  # Accelerate
    # ── evaluation ──
    row("change", "eval_start", "info", "running evaluation"),
    row("change", "eval_start", "info", "running validation"),
    row("change", "eval_start", "info", "starting evaluation"),
    row("change", "eval_start", "info", "running prediction"),
    row("change", "eval_end", "info", "validation loss at iteration",
        r"validation loss at iteration\s+(?P<step>\d+)"),  # Megatron
    row("change", "eval_end", "info", "eval_runtime", r"eval_runtime['\"]?\s*[:=]\s*['\"]?(?P<seconds>[\d."
                                                      "]+)"),
    row("change", "eval_end", "info", ("validate", "step"),
        r"\bvalidate step:\s*(?P<step>\d+)"),  # torchtitan
    # ── optimiser ──
    row("change", "overflow", "info", "overflow!",
        r"OVERFLOW! [^\n]{0,40}Skipping step[^\n]{0,40}?loss scale: (?P<from_scale>[\d.]+), reducing to "
        r"(?P<to_scale>[\d.]+)"),
    row("change", "overflow", "info", "gradient overflow",
        r"gradient overflow[^\n]{0,80}?loss scale(?: from [\d.]+)? to:? (?P<to_scale>[\d.]+)"),
    # ── compilation ──
    row("start", "compile", "info", "time to load", r"Time to load \w+ op: (?P<seconds>[\d.]+) seconds"),
    row("start", "compile", "info", "using ninja", tells_once=True),
    row("start", "compile", "info", "compiling", r"\bcompiling\b[^\n]{0,60}(?:kernel|model|graph"
                                                 r"|torch\.compile|index builder|helpers|step)",
        tells_once=True),
    row("start", "compile", "warning", "recompile_limit", tells_once=True),
    row("start", "compile", "warning", "cache_size_limit", tells_once=True),
    # ── start ──
    row("start", "start", "info", "***** running training *****"),
    row("start", "start", "info", "training starts at step", r"training starts at step (?P<step>\d+)"),
    row("start", "start", "info", "resuming", "resum(?:ing|ed) (?:training )?(?:from"
                                              r"|at)\b(?:[^\n]{0,200}?(?:checkpoint-|step[ _=]*"
                                              r"|iteration )(?P<step>\d+))?"),
    row("start", "start", "info", "successfully loaded checkpoint",
        r"successfully loaded checkpoint[^\n]{0,400}? at iteration (?P<step>\d+)"),
    row("start", "init", "info", "initializing torch distributed", tells_once=True),
    row("start", "init", "info", "init_process_group", tells_once=True),
    row("start", "init", "info", "initializing distributed", tells_once=True),
    row("start", "init", "info", "initializing torchbackend", tells_once=True),
    row("start", "init", "info", "loading checkpoint", tells_once=True),
    row("start", "init", "info", "downloading", r"\bDownloading\b", tells_once=True),
    row("start", "init", "info", "successfully installed", r"^\s*Successfully installed ", tells_once=True),
    row("start", "init", "info", "building dataset", tells_once=True),
    row("start", "init", "info", ("building", "datasets"), r"building [\w, /]*datasets", tells_once=True),
    row("start", "init", "info", "time to initialize megatron",
        r"time to initialize megatron \(seconds\)[:=] ?(?P<seconds>[\d.]+)"),
    row("start", "init", "info", "starting worker group", tells_once=True),
    row("start", "init", "info", "rendezvous'ing worker group", tells_once=True),
    # ── end ──
    row("exit", "training_end", "info", "training completed"),
    row("exit", "training_end", "info", "train_runtime", r"train_runtime['\"]?\s*[:=]\s*['\"]?(?P<seconds>"
                                                         r"[\d.]+)"),
    row("exit", "training_end", "info", "`trainer.fit` stopped"),
    row("exit", "training_end", "info", "[after training is done]"),
    row("exit", "training_end", "info", "exiting program at iteration",
        r"exiting program at iteration\s+(?P<step>\d+)"),
)  # fmt: skip
