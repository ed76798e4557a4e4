"""How training frameworks write their progress: names of numbers, units, bars and words, as tables.

Read from what these print: plain loggers and JSON lines, tqdm, Hugging Face Trainer, Lightning, Megatron-LM,
DeepSpeed, torchtitan, Keras, Composer, NeMo, fairseq, OpenMMLab, Detectron2, timm, torchvision's references,
nanoGPT, MaxText, MindFormers and PaddleNLP. Names are compared in lower case with `_` between words:
`elapsed time per iteration (ms)` is `elapsed_time_per_iteration_ms`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from stepscope.sources.formats.log_number import BYTES, COUNT, RATIO, SECONDS, TFLOPS, VALUE


@dataclass(frozen=True, slots=True)
class Key:
    """A number's name: the field it fills, its units, and the factor of a number without one.

    `bare` is `None` where a number without a unit could be anything: it is then not read. `rank` orders names
    of one field that stand in one line, the best first.
    """

    field: str
    units: Mapping[str, float]
    bare: float | None = 1.0
    rank: int = 0
    is_vague: bool = False
    """It may as well count from the start of the job: the whole column decides."""


def _keys(
    field: str, units: Mapping[str, float], names: str, bare: float | None = 1.0, *, is_vague: bool = False
) -> dict[str, Key]:
    return {name: Key(field, units, bare, rank, is_vague) for rank, name in enumerate(names.split())}


_NONE: Mapping[str, float] = {}
KEYS: Mapping[str, Key] = {
    **_keys("loss", _NONE,
            "loss lm_loss train_loss total_loss training_loss reduced_train_loss reduced_loss avg_loss "
            "mean_loss running_loss "
            "loss_train_total global_avg_loss loss_metrics_global_avg_loss loss_step smoothed_loss cur_loss "
            "ce_loss cross_entropy_loss cross_entropy train_ce_loss nll_loss"),
    **_keys("grad_norm", _NONE, "grad_norm gradient_norm global_grad_norm gnorm global_norm "
                                "total_grad_norm grad_norm_total"),
    **_keys("learning_rate", _NONE, "learning_rate lr lr_group_0 lr_0 lr_adamw_param_groups_0"),
    **_keys("loss_scale", COUNT, "loss_scale scale_loss loss_scaler grad_scale"),
    **_keys("tokens_per_second", COUNT,
            "tokens_per_second tokens_per_sec tokens_s tok_s tok_sec tokens_sec tps wps tgs "
            "throughput_tokens_per_sec "
            "tokens_per_second_per_gpu tokens_per_second_per_device tokens_s_device tokens_s_gpu "
            "tokens_per_gpu_per_second "
            "tokens_per_sec_per_gpu throughput_device_tokens_per_sec interval_tokens_per_second_per_device "
            "train_tokens_per_second perf_throughput throughput_tps"),
    **_keys("samples_per_second", COUNT,
            "currsamplespersec samples_per_second samples_per_sec samples_s samples_sec "
            "throughput_samples_per_sec "
            "train_samples_per_second interval_samples_per_second images_per_second images_per_sec "
            "images_sec imgs_s img_s "
            "images_s examples_per_second examples_sec sequences_per_second runningavgsamplespersec"),
    **_keys("steps_per_second", _NONE,
            "steps_per_second steps_per_sec steps_s it_s iter_s iters_per_sec iterations_per_second "
            "batches_per_sec "
            "throughput_batches_per_sec train_steps_per_second interval_steps_per_second ups"),
    **_keys("step_seconds", SECONDS,
            "elapsed_time_per_iteration step_time iter_time iteration_time time_per_step time_per_iter "
            "time_per_iteration "
            "per_step_time batch_time train_step_time train_step_timing_in train_step_timing timing_step "
            "step_duration "
            "step_avg time_s_step s_step seconds_per_step time_per_batch sec_per_step secs_per_step "
            "iteration_duration"),
    **_keys("step_seconds", SECONDS, "time dt seconds duration", None, is_vague=True),
    **_keys("tflops_per_device", TFLOPS,
            "tflops tflop_s throughput_per_gpu_tflop_s_gpu compute_per_gpu_tflop_s_gpu tflops_per_gpu "
            "tflop_s_gpu "
            "tflop_s_device tflops_gpu tflops_per_device model_tflops model_tflops_per_gpu tflops_s "
            "throughput_device_tflops "
            "throughput_tflops"),
    **_keys("mfu_ratio", RATIO, "mfu mfu_ratio model_flops_utilization throughput_device_mfu mfu_actor"),
    **_keys("memory_bytes", BYTES,
            "maxmemallocated max_mem max_memory max_memory_allocated peak_memory peak_mem "
            "current_max_memory_allocated "
            "memory_max_reserved memory_max_active max_reserved memory mem memory_allocated memallocated "
            "gpu_mem gpu_memory "
            "mem_allocated", None),
    **_keys("data_seconds", SECONDS,
            "data_time data_loading_time time_to_load_data dataloader_time data_load_time load_time data_s "
            "time_metrics_data_loading data_wait_time"),
    **_keys("data_seconds", SECONDS, "data", None),
    **_keys("tokens", COUNT, "consumed_tokens tokens_seen total_tokens num_tokens tokens ntokens "
                             "n_tokens_seen"),
    **_keys("samples", COUNT, "consumed_samples num_samples samples_seen samples"),
    **_keys("sequence_length", _NONE, "sequence_length seq_len seq_length seqlen curriculum_seqlen"),
    **_keys("epoch", _NONE, "epoch epochs current_epoch trainer_epoch"),
}  # fmt: skip
BESIDE: Mapping[str, tuple[frozenset[str], float]] = {
    "time": (frozenset({"data_time", "data"}), 1.0),  # OpenMMLab, torchvision, the ImageNet example
    "data": (frozenset({"time", "batch_time"}), 1.0),
    "seconds": (frozenset({"tflop_s_device"}), 1.0),  # MaxText
    "memory": (frozenset({"data_time"}), 2.0**20),  # OpenMMLab
}
"""Numbers without a unit that are known by a number beside them: (names, one of which is there; factor)."""
NAME_UNITS: Mapping[str, float] = {
    "ms": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "us": 1e-6,
    "gib": 2.0**30, "gb": 2.0**30, "mib": 2.0**20, "mb": 2.0**20, "bytes": 1.0, "percent": 0.01, "pct": 0.01,
}  # fmt: skip
"""Units that a name ends in: `iter_time_ms`, `max_mem_gb`, `mfu_percent`."""

FIRST_WORDS = frozenset(
    "train training trainer perf metrics throughput info warning debug current cur global time timing optim "
    "memory model running stats step".split()
)
"""Words before a name, or folders it lies in, that change nothing: `train/loss`, `perf/mfu`, `INFO loss`."""
EVAL_WORDS = frozenset("val valid validation validate eval evaluation test dev heldout".split())
"""A number whose name holds one of these is of an evaluation."""

STEPS: tuple[str, ...] = (
    "global_step", "trainer_global_step", "current_steps", "num_updates", "update_steps", "optimizer_step",
    "iteration", "step", "steps", "iter", "iters", "itr", "train_step", "training_step", "train_iter",
        "current_step",
    "step_num", "step_id", "completed_step", "n_iter", "iter_num", "update", "updates", "batch", "_step",
        "n_step",
)  # fmt: skip
"""Names of a step, the best first."""
LAST_OF_STEP = frozenset("step iteration iter".split())
NO_STEP_WORDS = frozenset(
    "per time micro skipped nan number num max total save saved saving log last warmup every of loss ms s "
    "in after until "
    "checkpoint interval remaining eta decay from avg average size freq frequency inner accumulation "
    "sampling inference "
    "diffusion denoising first resume start".split()
)
"""A name that ends as a step's does but holds one of these is none: `micro step`, `skipped iterations`."""
TOTALS = frozenset("total_steps max_steps total_step train_iters total_iterations".split())

UNIT_FIRST: tuple[tuple[str, re.Pattern[str], str, float], ...] = tuple(
    (
        needle,
        re.compile(rf"(?<![\w.])({VALUE})\s?({scale})\s?(?:{unit})(?![\w/])", re.IGNORECASE),
        field,
        factor,
    )
    for needle, unit, scale, field, factor in (
        ("tok", r"tok(?:en)?s?/s(?:ec)?|tokens per sec(?:ond)?", "[km]?", "tokens_per_second", 1.0),
        (
            "/s",
            r"(?:samples?|examples|images|imgs?|seqs?|sequences)/s(?:ec)?",
            "k?",
            "samples_per_second",
            1.0,
        ),
        ("/s", r"(?:its?|iters?|steps?|batch(?:es)?)/s(?:ec)?", "", "steps_per_second", 1.0),
        ("s/", r"s(?:ec)?/(?:it|iter|step|batch)", "", "step_seconds", 1.0),
        ("ms/", r"ms/(?:it|iter|step|batch)", "", "step_seconds", 1e-3),
        ("mfu", r"%(?: \w{2,5})? mfu", "", "mfu_ratio", 0.01),
        ("tflop", r"tflops?(?:/s)?(?:/(?:gpu|device))?", "", "tflops_per_device", 1.0),
    )
)
"""Numbers whose unit stands behind and says what they are: `12,345 tok/s`, `8ms/step`. The needle is looked
for first, in lower case."""
UNIT_BEHIND = re.compile(r"(?i)\d\s?[km]?\s?(?:tok|sam|exa|ima|img|seq|it|step|bat|m?s/|sec/|%|tflop)")
"""A quick look whether a line may hold one."""

PAIR = re.compile(
    r"[\"']?(?:\s{0,12}[:=]>?\s{0,12}[\"'\[({]{0,3}\s{0,12}|(?: is)?\s{1,12}[\[(]?\s{0,6})"
    rf"(?P<value>{VALUE})(?P<total>\s{{0,6}}/\s{{0,12}}\d[\d,]{{0,18}})?"
    r"(?=\s?(?P<unit>%|[A-Za-zµ]{1,12})(?!\w|\s*[:=])|)"
)
"""What follows a name, and its number: `loss: 2.3`, `lr=[6e-05]`, `step 100/1000`, `time 134.22ms`."""
LABEL_BREAK = re.compile(r"(?s:.*)(?:[^\w/.%()\- ]|  )")
"""All of a text to the last character that is in no name."""
MOST_LABEL_WORDS = 7

# Positions within an epoch: (pattern, from which number epochs are counted). Groups epoch, n, total.
EPOCH_POSITIONS: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(pattern + r"\s{0,8}(?P<n>\d{1,9})/(?P<total>\d{1,9})(?:\]| \()"), base)
    for pattern, base in (
        # OpenMMLab: Epoch [1][50/1234], Epoch(train)  [1][  50/1234]
        (r"Epoch(?:\(train\))?\s{1,4}\[(?P<epoch>\d{1,6})\]\s?\[", 1),
        # torchvision and the ImageNet example: Epoch: [0][ 10/1251], Epoch: [0]  [ 10/1251]
        (r"Epoch:\s{0,4}\[(?P<epoch>\d{1,6})\]\s{0,4}\[", 0),
        # timm: Train: 0 [  50/1251 (  4%)]
        (r"Train: (?P<epoch>\d{1,6}) \[", 0),
    )
)
POSITIONS: tuple[re.Pattern[str], ...] = (
    # OpenMMLab by iterations: Iter(train) [  100/80000]
    re.compile(r"Iter(?:\(train\))?\s{1,4}\[\s{0,8}(?P<n>\d{1,9})/(?P<total>\d{1,9})\]"),
    # DeepSpeed up to 0.7: 0/20, RunningAvgSamplesPerSec=
    re.compile(r"\b\d{1,6}/(?P<n>\d{1,12}), RunningAvgSamplesPerSec="),
    # torchtune, MindFormers and others: step:[   10/ 1000]
    re.compile(r"(?i)\bstep:?\s?\[\s{0,8}(?P<n>\d{1,12})\s?/\s{0,8}(?P<total>\d{1,12})\]"),
)
"""Positions in the whole job that are no name and number."""

_N = r"\d{1,12}"
BARS: tuple[tuple[tuple[str, ...], str, re.Pattern[str]], ...] = tuple(
    (marks, name, re.compile(pattern))
    for marks, name, pattern in (
        # tqdm:   5%|▌ | 50/1000 [00:25<07:55, 2.00it/s, loss=2.1]
        (("%|",), "tqdm",
         rf"(?P<desc>[^|%]{{0,200}}?):?\s{{0,4}}\d{{1,3}}%\|[^"
         rf"|]{{0,300}}\|\s{{0,8}}(?P<n>{_N})/(?P<total>{_N}) "
         r"\[(?P<elapsed>[\d:]{4,16}|\d+ days?, [\d:]{4,10})<(?P<left>[\d:? ,days]{1,24}?), {1,"
         r"4}(?P<rate>[\d.]{1,14}|\?) ?"
         r"(?P<unit>[^\],]{0,40})(?P<rest>[^\]]{0,4000})"),
        # tqdm without a total: 50it [00:25, 2.00it/s]
        (("it [", "step [", "steps [", "batch [", "batches [", "ba ["), "tqdm",
         rf"(?P<desc>[^|%]{{0,200}}?):?\s{{0,4}}(?<![\w.])(?P<n>{_N})(?P<per>it|step|steps|batch|batches|ba) "
         r"\[(?P<elapsed>[\d:]{4,16}), {1,4}(?P<rate>[\d.]{1,14}"
         r"|\?) ?(?P<unit>[^\],]{0,40})(?P<rest>[^\]]{0,4000})"),
        # Keras 3: 100/1563 ━━━━━━━━━━━━━━━━━━━━ 10s 7ms/step - accuracy: 0.1 - loss: 2.3
        ((" ━",), "keras",
         rf"(?P<desc>)\s{{0,8}}(?P<n>{_N})/(?P<total>{_N}) ━{{1,200}} (?P<left>[\d:]{{1,12}})s? "
         rf"(?P<rate>\d[\d.]{{0,14}})(?P<unit>ms|s|us)/step"
         r"(?P<rest>.{0,4000})"),
        # Lightning's and others' rich bar: Epoch 0/9 ━━━━━━ 12/100 0:00:06 • 0:00:44 2.00it/s v_num: 3.000
        (("━",), "lightning",
         rf"(?P<desc>[^|%━]{{0,200}}?)\s{{0,4}}[━╸╺]{{1,400}}[━╸╺ ]{{0,400}}\s{{1,4}}(?P<n>{_N})"
         rf"/(?P<total>{_N}) (?P<elapsed>[\d:]{{4,16}}) • "
         r"(?P<left>[\d:\-]{4,16}) (?P<rate>[\d.]{1,14})(?P<unit>it/s|s/it)(?P<rest>.{0,4000})"),
        # Keras 1 and 2: 100/1563 [====>.........] - ETA: 10s - loss: 2.3, … - 12s 8ms/step - loss: 2.3
        (("] - ", " - ETA", "s - ", "/step"), "keras",
         rf"(?P<desc>)\s{{0,8}}(?P<n>{_N})/(?P<total>{_N}) (?:\[[=>.]{{5,200}}\] )?- (?P<left>ETA: "
         rf"[\d:]{{1,12}}s?|[\d:]{{1,12}}s)"
         r"(?: (?P<rate>\d[\d.]{0,14})(?P<unit>ms|s|us)/(?:step|sample|epoch))?(?P<rest>.{0,4000})"),
    )
)  # fmt: skip

BAR_UNITS: Mapping[str, tuple[str, float]] = {
    "it/s": ("steps_per_second", 1.0), "step/s": ("steps_per_second", 1.0), "steps/s": (
        "steps_per_second", 1.0),
    "batch/s": ("steps_per_second", 1.0), "batches/s": ("steps_per_second", 1.0), "ba/s": (
        "steps_per_second", 1.0),
    "s/it": ("step_seconds", 1.0), "s/step": ("step_seconds", 1.0), "s/steps": ("step_seconds", 1.0),
    "s/batch": ("step_seconds", 1.0), "s/batches": ("step_seconds", 1.0), "s/ba": ("step_seconds", 1.0),
    "ms": ("step_seconds", 1e-3), "us": ("step_seconds", 1e-6), "s": ("step_seconds", 1.0),
}  # fmt: skip
"""Units of a bar that counts steps; any other (examples, bytes, files, epochs) counts something else."""

OTHER_BARS = re.compile(
    r"(?i)\b(?:load|download|fetch|map|filter|token|generat|sav|writ|compil|captur|convert|pack|build"
    "|creat|resolv|extract"
    "|pars|read|index|cach|shard|process|upload|quanti|calibrat|sampl|rollout|infer|grouping"
    "|running tokenizer)[a-z]*"
)
"""Words of a bar that counts something other than training steps."""
EVAL_BARS = re.compile(r"(?i)\b(?:eval|valid|val|test|predict|sanity)[a-z]*\b")
EPOCHS_BAR = re.compile(r"(?i)^\W*epochs?\W*$")
"""A bar over epochs. `Epoch 3` is one over the steps of an epoch."""
EPOCH_IN_BAR = re.compile(r"(?i)\bepoch\W{0,3}(\d{1,6})")
EPOCH_LINE = re.compile(r"Epoch (\d{1,6})(?:/(\d{1,6}))?\s*:?$")
"""Keras: stands before the bar of its epoch."""

BLOCK = re.compile(r"\[(?:epoch=\d{1,9}/\d{1,9}\]\[)?batch=(?P<n>\d{1,12})/(?P<total>\d{1,12})\]:?\s*$")
"""Composer: lines `Train <name>: <number>` follow."""
BLOCK_LINE = re.compile(r"\s{1,8}Train ")

HUGGING_FACE = re.compile(r"\{'(?:loss|train_loss|eval_loss|grad_norm)': ")
"""A dictionary without a step, which the bar beside it states."""
PROMISED = re.compile(r"(?i)total optimization steps\s{0,4}[=:]\s{0,4}(?P<total>[\d,]{1,14})")

# What a line is of, by a mark that only one framework prints.
FRAMEWORKS: tuple[tuple[str, str], ...] = (
    ("megatron", "elapsed time per iteration (ms):"),
    ("deepspeed", "RunningAvgSamplesPerSec="),
    ("deepspeed", "skipped="),
    ("deepspeed", "iter time (s):"),
)
TITAN = re.compile(r"\bstep: {1,4}\d+ .*\btps: ")
"""Torchtitan."""

JSON_TIMES = (
    "timestamp",
    "time",
    "ts",
    "@timestamp",
    "_timestamp",
    "asctime",
    "datetime",
    "created",
    "date",
    "t",
)
JSON_TEXTS = ("message", "msg", "MESSAGE", "log", "text", "event")
"""Where structured loggers, journald and container runtimes keep a line's text."""
JOURNAL_TIME = "__REALTIME_TIMESTAMP"
"""Microseconds."""
JSON_HOSTS = ("_HOSTNAME", "host", "hostname")
JSON_RANKS = ("rank", "global_rank")
