"""Training logs: lines in the forms that frameworks print, and the numbers that must come out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepscope.model.error import InputError, UsageError
from stepscope.model.log import ABSENT_NS, Log, Progress
from stepscope.sources.log import read_log

NOON = 1_714_564_800_000_000_000
"""2024-05-01 12:00:00 UTC."""
S = 1_000_000_000


def log_of(text: str, pattern: str | None = None) -> Log:
    return read_log("made.log", data=text.encode(), pattern=pattern)


def progress_of(text: str) -> Progress:
    progress = log_of(text).progress
    assert progress is not None
    return progress


def only(text: str) -> dict[str, float]:
    """The numbers of a log whose lines state one step."""
    progress = progress_of(text)
    assert len(progress) == 1
    return {name: float(values[0]) for name, values in progress.values.items()}


def test_a_line_of_megatron_states_time_rate_loss_and_norm() -> None:
    log = log_of(
        " [2024-05-01 12:00:00] iteration      100/  500000 | consumed samples:        25600 | "
        "elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 301.2 | "
        "learning rate: 1.500000E-04 | global batch size:   256 | lm loss: 7.399415E+00 | "
        "loss scale: 16384.0 | grad norm: 2.918 | number of skipped iterations:   3 | "
        "number of nan iterations:   0 |"
    )
    assert (log.format, log.is_zone_assumed) == ("megatron", True)
    progress = log.progress
    assert progress is not None
    assert (progress.step.tolist(), progress.at_ns.tolist(), progress.total) == ([100], [NOON], 500_000)
    assert {name: values.tolist() for name, values in progress.values.items()} == {
        "loss": [7.399415],
        "grad_norm": [2.918],
        "learning_rate": [1.5e-4],
        "loss_scale": [16384.0],
        "step_seconds": [1.2345],
        "tflops_per_device": [301.2],
        "samples": [25600.0],
    }


def test_three_lines_of_deepspeed_of_one_step_are_one_row() -> None:
    log = log_of(
        "[2024-05-01 12:00:00,250] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=2, "
        "lr=[6e-05, 6e-05], mom=[(0.9, 0.95)]\n"
        "[2024-05-01 12:00:00,300] [INFO] [timer.py:215:stop] epoch=0/micro_step=100/global_step=10, "
        "RunningAvgSamplesPerSec=220.5, CurrSamplesPerSec=222.75, MemAllocated=0.07GB, "
        "MaxMemAllocated=1.5GB\n"
        "steps: 10 loss: 2.5000 iter time (s): 0.512 samples/sec: 62.5\n"
        "steps: 20 loss: 2.4000 iter time (s): 0.500 samples/sec: 64.0\n"
    )
    progress = log.progress
    assert progress is not None
    assert (log.format, log.rank, progress.step.tolist()) == ("deepspeed", 0, [10, 20])
    assert progress.at_ns.tolist() == [NOON + S // 4, ABSENT_NS]
    # The current rate, not the running average; the peak of memory; steps, not micro steps.
    assert progress.values["samples_per_second"].tolist() == [222.75, 64.0]
    assert progress.column("memory_bytes")[2].tolist() == [1.5 * 2**30]
    assert progress.column("learning_rate")[1].tolist() == [10]
    assert progress.values["step_seconds"].tolist() == [0.512, 0.5]


def test_torchtitan_writes_thousands_with_a_comma_and_shares_in_percent() -> None:
    text = (
        "[rank0]:[titan] 2024-05-01 12:00:00,123 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.9012  "
        "\x1b[34mgrad_norm:  1.2500  \x1b[36mmemory: 40.50GiB(50.62%)  \x1b[34mtps: 7,123  "
        "\x1b[35mtflops: 300.25  \x1b[36mmfu: 30.36%\x1b[39m"
    )
    log = log_of(text)
    assert (log.format, log.rank) == ("torchtitan", 0)
    numbers = only(text)
    assert numbers["mfu_ratio"] == pytest.approx(0.3036)
    assert (numbers["tokens_per_second"], numbers["memory_bytes"]) == (7123.0, 40.5 * 2**30)
    assert (numbers["loss"], numbers["grad_norm"], numbers["tflops_per_device"]) == (7.9012, 1.25, 300.25)


def hugging_face(*, refreshed: bool) -> str:
    parts = ["***** Running training *****\n  Total optimization steps = 1,000\n"]
    for step in (10, 20, 30):
        drawn = step if not refreshed else step - 1  # a drawing before the line lags
        parts.append(f"\r  1%|▏         | {drawn}/1000 [00:{step // 2:02d}<08:15,  2.00it/s]")
        parts.append(f"\r    \r{{'loss': {3 - step / 100}, 'grad_norm': 1.5, 'epoch': 0.0{step // 10}}}\n")
        if refreshed:
            parts.append(f"\r  1%|▏         | {step}/1000 [00:{step // 2:02d}<08:15,  2.00it/s]")
    return "".join(parts)


@pytest.mark.parametrize("refreshed", [True, False])
def test_a_dictionary_of_hugging_face_takes_its_step_from_the_bar_beside_it(refreshed: bool) -> None:
    log = log_of(hugging_face(refreshed=refreshed))
    progress = log.progress
    assert progress is not None
    assert (log.format, progress.total) == ("hugging-face", 1000)
    _, steps, losses = progress.column("loss")
    assert steps.tolist() == [10, 20, 30]
    assert losses == pytest.approx([2.9, 2.8, 2.7])


def test_dictionaries_that_were_buffered_state_no_step() -> None:
    bar = "\r  5%|▌         | 50/1000 [00:25<07:55,  2.00it/s]\n"
    log = log_of(
        bar + "{'loss': 2.5, 'epoch': 0.1}\n{'loss': 2.4, 'epoch': 0.2}\n" + bar.replace("50/", "90/")
    )
    assert log.progress is not None
    assert log.progress.step.tolist() == [50, 90]
    assert "loss" not in log.progress.values
    assert ("lines_without_step", 2) in [note[:2] for note in log.notes]


def test_a_bar_states_position_total_rate_and_what_stands_behind() -> None:
    text = "train:   5%|▌         | 50/1000 [00:25<07:55,  2.00it/s, loss=2.1, lr=5e-5]\n"
    progress = progress_of(text)
    assert (progress.step.tolist(), progress.total) == ([50], 1000)
    assert only(text) == {"loss": 2.1, "learning_rate": 5e-5, "steps_per_second": 2.0}


def test_a_bar_slower_than_a_step_a_second_states_seconds() -> None:
    assert only("  5%|5         | 50/1000 [01:15<23:45,  1.50s/it]\n") == {"step_seconds": 1.5}


@pytest.mark.parametrize(
    "other",
    [
        "Map: 100%|██████████| 9000/9000 [10:00<00:00, 15.00 examples/s]",
        "Downloading model.bin: 50%|█████     | 500/1000 [30:00<30:00, 2.00it/s]",
        "Loading checkpoint shards:  50%|█████     | 2/4 [40:00<40:00, 9.00s/it]",
        "Epochs:  33%|███▎      | 1/3 [59:00<99:59, 900.00s/it]",
        "100%|██████████| 9000/9000 [30:00<00:00, 5.00MB/s]",
        "Evaluating: 100%|██████████| 9000/9000 [55:00<00:00, 2.00it/s]",
    ],
)
def test_a_bar_of_something_else_is_not_taken_for_the_training(other: str) -> None:
    train = "  5%|▌         | 50/1000 [00:25<07:55,  2.00it/s]"
    progress = progress_of(f"{other}\n{train}\n{other}\n")
    assert (progress.step.tolist(), progress.total) == ([50], 1000)


def test_of_two_nameless_bars_the_promised_total_is_the_training() -> None:
    text = (
        "Total optimization steps = 100\n"
        "  9%|▉         | 9/100 [00:06<01:00,  1.50it/s]\n"
        " 99%|█████████▉| 990/1000 [09:00<00:05,  2.00it/s]\n"
        " 10%|█         | 10/100 [00:07<01:00,  1.50it/s]\n"
    )
    assert progress_of(text).step.tolist() == [9, 10]


def test_steps_of_lightning_are_counted_through_epochs() -> None:
    log = log_of(
        "Epoch 0:  12%|█▏        | 12/100 [00:06<00:44,  2.00it/s, v_num=3, train_loss=2.100]\n"
        "Epoch 0: 100%|██████████| 100/100 [00:50<00:00,  2.00it/s, v_num=3, train_loss=1.900]\n"
        "Validation DataLoader 0: 100%|██████████| 10/10 [00:01<00:00,  9.00it/s]\n"
        "Epoch 1:   7%|▋         | 7/100 [00:03<00:46,  2.00it/s, v_num=3, train_loss=1.800]\n"
    )
    assert log.format == "lightning"
    assert log.progress is not None
    assert log.progress.step.tolist() == [12, 100, 107]
    assert log.progress.values["loss"].tolist() == [2.1, 1.9, 1.8]
    assert [event.what for event in log.events] == ["eval_end"]
    assert "steps_of_epochs" in [note[0] for note in log.notes]


def test_the_rich_bar_of_lightning_is_read() -> None:
    text = "Epoch 1/9  ━━━━━━━━╸━━━━━━━ 12/100 0:00:06 • 0:00:44 2.00it/s v_num: 3.000 train_loss: 2.5\n"
    progress = progress_of("Epoch 0/9  ━━━━━━━━ 100/100 0:00:50 • 0:00:00 2.00it/s v_num: 3.000\n" + text)
    assert progress.step.tolist() == [100, 112]
    assert progress.column("loss")[2].tolist() == [2.5]


@pytest.mark.parametrize(
    "lines",
    [
        " 50/100 [============>.............] - ETA: 10s - loss: 2.5000 - accuracy: 0.1\r"
        "100/100 [==========================] - 12s 120ms/step - loss: 2.0 - val_loss: 2.2\n"
        "Epoch 2/2\n 50/100 [============>.............] - ETA: 10s - loss: 1.5000\n",
        "\x1b[1m 50/100\x1b[0m \x1b[32m━━━━━━━━\x1b[0m\x1b[37m━━━━\x1b[0m \x1b[1m6s\x1b[0m 120ms/step "
        "- loss: 2.5"
        "\x08\x08\x08\r\x1b[1m100/100\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m12s\x1b[0m "
        "120ms/step - loss: 2.0\n"
        "Epoch 2/2\n\x1b[1m 50/100\x1b[0m ━━━━ \x1b[1m6s\x1b[0m 120ms/step - loss: 1.5\n",
    ],
)
def test_keras_counts_within_epochs_and_is_counted_through(lines: str) -> None:
    log = log_of("Epoch 1/2\n" + lines)
    assert log.format == "keras"
    assert log.progress is not None
    assert log.progress.step.tolist() == [50, 100, 150]
    assert log.progress.values["loss"].tolist() == [2.5, 2.0, 1.5]
    assert 0.12 in log.progress.values["step_seconds"].tolist()


@pytest.mark.parametrize(
    ("line", "step", "numbers"),
    [
        (  # nanoGPT
            "iter 100: loss 2.3456, time 134.25ms, mfu 17.50%",
            100,
            {"loss": 2.3456, "step_seconds": 0.13425, "mfu_ratio": 0.175},
        ),
        (  # llm.c
            "step  100/1000 | loss 7.912345 (+0.12z)| norm 1.2 (-1.1z)| lr 6.00e-04 | 1234.56 ms "
            "| 31.25% bf16 MFU | 425000 tok/s",
            100,
            {"loss": 7.912345, "learning_rate": 6e-4, "mfu_ratio": 0.3125, "tokens_per_second": 425_000.0},
        ),
        (  # MaxText
            "completed step: 10, seconds: 1.25, TFLOP/s/device: 180.5, Tokens/s/device: 1234.5, loss: 10.8",
            10,
            {"loss": 10.8, "step_seconds": 1.25, "tflops_per_device": 180.5, "tokens_per_second": 1234.5},
        ),
        (  # fairseq
            "2024-05-01 12:00:00 | INFO | train_inner | epoch 001:    100 / 1234 loss=10.25, ppl=1178, "
            "wps=25000.5, ups=2.5, wpb=9000, num_updates=100, lr=1e-05, gnorm=1.25, loss_scale=128, wall=52",
            100,
            {
                "loss": 10.25, "tokens_per_second": 25000.5, "steps_per_second": 2.5, "learning_rate": 1e-5,
                "grad_norm": 1.25, "loss_scale": 128.0, "epoch": 1.0,
            },
        ),
        (  # Detectron2
            " eta: 1:02:03  iter: 19  total_loss: 1.25  loss_cls: 0.5  time: 0.2432  data_time: 0.0125  "
            "lr: 0.001  max_mem: 3456M",
            19,
            {
                "loss": 1.25, "step_seconds": 0.2432, "data_seconds": 0.0125, "learning_rate": 0.001,
                "memory_bytes": 3456.0 * 2**20,
            },
        ),
        (  # MindFormers
            "2024-05-01 12:00:00,000 - mindformers - INFO - { Epoch:[  1/ 2], step:[   10/ 1000], "
            "loss: 10.625, per_step_time: 1250ms, lr: 1e-5, overflow cond: False, loss_scale: 65536",
            10,
            {
                "loss": 10.625, "step_seconds": 1.25, "learning_rate": 1e-5, "loss_scale": 65536.0,
                "epoch": 1.0,
            },
        ),
        (  # PaddleNLP
            "loss: 10.5, learning_rate: 1e-05, global_step: 10, current_max_memory_allocated: 20.5 GB, "
            "interval_samples_per_second: 12.5, interval_steps_per_second: 0.5",
            10,
            {
                "loss": 10.5, "learning_rate": 1e-5, "memory_bytes": 20.5 * 2**30, "samples_per_second": 12.5,
                "steps_per_second": 0.5,
            },
        ),
        ("epoch: 1 step: 100, loss is 2.5", 100, {"loss": 2.5, "epoch": 1.0}),  # MindSpore
        (  # torchtune
            "1|10|Loss: 2.5:   1%|          | 10/1000 [00:20<33:00,  2.00s/it]",
            10,
            {"loss": 2.5, "step_seconds": 2.0},
        ),
        (  # verl
            "(TaskRunner pid=12) step:1 - actor/grad_norm:0.5 - perf/mfu/actor:0.25 - "
            "perf/throughput:1234.5 - timing_s/step:100.5",
            1,
            {"grad_norm": 0.5, "mfu_ratio": 0.25, "tokens_per_second": 1234.5, "step_seconds": 100.5},
        ),
        ("Epoch 1 | Step 100/1000 | Loss 2.5 | 1.25k tok/s", 100,
         {"loss": 2.5, "tokens_per_second": 1250.0, "epoch": 1.0}),
        ("(RayTrainWorker pid=1234, ip=10.0.0.1) step=7 loss=2.5", 7, {"loss": 2.5}),
        ("0: step=7 loss=2.5", 7, {"loss": 2.5}),
    ],
)  # fmt: skip
def test_a_line_states_what_its_framework_means(line: str, step: int, numbers: dict[str, float]) -> None:
    assert progress_of(line).step.tolist() == [step]
    assert only(line) == pytest.approx(numbers)


def test_open_mmlab_counts_within_epochs_from_one() -> None:
    lines = [
        f"2024/05/01 12:00:{n:02d} - mmengine - INFO - Epoch(train)  [{1 + n // 2}][{50 * (1 + n % 2)}/100]  "
        f"lr: 1.0e-03  eta: 1:00:00  time: 0.5{n}00  data_time: 0.0125  memory: 4567  loss: 1.{9 - n}00"
        for n in range(4)
    ]
    progress = progress_of("\n".join(lines))
    assert progress.step.tolist() == [50, 100, 150, 200]
    assert progress.values["step_seconds"].tolist() == [0.5, 0.51, 0.52, 0.53]
    assert progress.values["memory_bytes"].tolist() == [4567 * 2.0**20] * 4
    assert progress.at_ns.tolist() == [NOON + n * S for n in range(4)]


@pytest.mark.parametrize("line", ["step 1 loss 2.5 ce_loss 2.25", "step 1 ce_loss 2.25 loss 2.5"])
def test_of_two_names_of_one_number_the_plainer_counts(line: str) -> None:
    assert only(line) == {"loss": 2.5}


def test_a_block_of_composer_is_one_row() -> None:
    text = (
        "[epoch=0/1][batch=10/1000]:\n\t Train time/batch: 9\n\t Train loss/train/total: 11.5\n"
        "\t Train throughput/tokens_per_sec: 1,234.5\n"
        "[epoch=0/1][batch=11/1000]:\n\t Train loss/train/total: 11.25\n"
    )
    progress = progress_of(text)
    assert (progress.step.tolist(), progress.total) == ([10, 11], 1000)
    assert progress.values["loss"].tolist() == [11.5, 11.25]
    assert progress.column("tokens_per_second")[2].tolist() == [1234.5]


def test_json_lines_are_read_nested_with_their_times_and_what_they_wrap() -> None:
    log = log_of(
        '{"step": 1, "train/loss": 2.5, "timestamp": "2024-05-01T12:00:00Z"}\n'
        '{"_step": 2, "train": {"loss": "2.25"}, "_timestamp": 1714564801.5}\n'
        '{"log": "step: 3 loss: 2.0\\n", "stream": "stdout", "time": "2024-05-01T14:00:02+02:00"}\n'
        '{"step": 4, "val/loss": 2.0, "time": 1714564803000}\n'
    )
    progress = log.progress
    assert progress is not None
    assert progress.step.tolist() == [1, 2, 3]
    assert progress.values["loss"].tolist() == [2.5, 2.25, 2.0]
    assert progress.at_ns.tolist() == [NOON, NOON + 3 * S // 2, NOON + 2 * S]
    assert [(e.what, e.step, e.at_ns) for e in log.events] == [("eval_end", 4, NOON + 3 * S)]
    assert not log.is_zone_assumed


def test_a_loss_that_is_no_number_is_an_event_and_no_value() -> None:
    log = log_of(
        "step 1 loss 2.5\nstep 2 loss nan\nstep 3 loss nan\nstep 4 loss 2.25\nstep 5 loss inf grad_norm inf\n"
    )
    progress = log.progress
    assert progress is not None
    _, steps, losses = progress.column("loss")
    assert (steps.tolist(), losses.tolist()) == ([1, 4], [2.5, 2.25])
    told = [(event.what, event.step, event.severity) for event in log.events]
    assert told == [
        ("non_finite", 2, "critical"),
        ("non_finite", 5, "critical"),
        ("non_finite", 5, "info"),
    ]


def test_steps_that_fall_are_a_restart() -> None:
    steps = [100, 110, 120, 130, 100, 110, 120, 130, 140]
    log = log_of("".join(f"2024-05-01 12:00:{n:02d} step {step} loss 2.0\n" for n, step in enumerate(steps)))
    (restart,) = [event for event in log.events if event.kind == "start"]
    assert (restart.what, restart.step, restart.at_ns, restart.line) == ("restart", 100, NOON + 4 * S, 5)
    assert restart.numbers["from_step"] == 130


def test_lines_of_ranks_that_overtake_each_other_are_no_restart() -> None:
    steps = [1, 1, 2, 1, 2, 3, 2, 3, 3, 4]
    log = log_of("".join(f"step {step} loss 2.0\n" for step in steps))
    assert [event.what for event in log.events] == []


def test_of_several_ranks_one_counts_and_the_others_are_said() -> None:
    log = log_of(
        "".join(f"[rank{rank}]: step {step} loss 2.{rank}\n" for step in (1, 2, 3) for rank in (1, 0))
    )
    assert log.progress is not None
    assert log.progress.values["loss"].tolist() == [2.0, 2.0, 2.0]
    assert ("other_ranks", 3) in [note[:2] for note in log.notes]
    assert log.rank is None


def test_times_that_only_grow_are_no_times_of_steps() -> None:
    log = log_of("".join(f"step {n} loss 2.0 time {n * 10}.5s\n" for n in range(1, 6)))
    assert log.progress is not None
    assert "step_seconds" not in log.progress.values
    assert "time_since_start" in [note[0] for note in log.notes]


@pytest.mark.parametrize(
    "line",
    [
        "Saving checkpoint at step 100",
        "Step 5/12 : RUN pip install torch",
        "python train.py --logging_steps 10 --learning_rate 1e-3 --max_steps 500",
        "{'learning_rate': 0.001, 'steps': 1000, 'batch_size': 8}",
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300000",
        "epoch 3 loss 2.5",
        "| skipped iterations: 3 loss: 2.0",
        "micro step 3 loss 2.5",
    ],
)
def test_a_line_without_a_step_of_training_is_no_progress(line: str) -> None:
    log = log_of("step 1 loss 2.0\n" + line)
    assert log.progress is not None
    assert log.progress.step.tolist() == [1]


def test_phases_are_events_with_their_times() -> None:
    log = log_of(
        "2024-05-01 12:00:00 initializing torch distributed ...\n"
        "2024-05-01 12:00:01 Time to load cpu_adam op: 22.5 seconds\n"
        "2024-05-01 12:00:02 step 1 loss 2.0\n"
        "2024-05-01 12:00:03 saving checkpoint at iteration      10 to /data/out\n"
        "2024-05-01 12:00:04   successfully saved checkpoint from iteration      10 to /data/out\n"
        "2024-05-01 12:00:05 Finished saving the checkpoint (or staging if async is enabled) "
        "in 3.25 seconds.\n"
        "  validation loss at iteration 10 | lm loss value: 2.3 | lm loss PPL: 9.9\n"
        "2024-05-01 12:00:07 Saving model checkpoint to /data/out/checkpoint-30\n"
        "2024-05-01 12:00:08 ***** Running Evaluation *****\n"
        "{'eval_loss': 2.1, 'eval_runtime': 4.25, 'epoch': 1.0}\n"
        "2024-05-01 12:00:09 Training completed. Do not forget to share your model\n"
    )
    told = [(event.kind, event.what, (event.at_ns or 0) // S - NOON // S, event.step) for event in log.events]
    assert told == [
        ("start", "init", 0, None),
        ("start", "compile", 1, None),
        ("checkpoint", "checkpoint_start", 3, 10),
        ("checkpoint", "checkpoint_end", 4, 10),
        ("checkpoint", "checkpoint_end", 5, None),
        ("change", "eval_end", 5, 10),  # the time of the line before
        ("checkpoint", "checkpoint_start", 7, 30),
        ("change", "eval_start", 8, None),
        ("change", "eval_end", 8, None),
        ("exit", "training_end", 9, None),
    ]
    assert [dict(event.numbers) for event in log.events if event.numbers] == [
        {"seconds": 22.5},
        {"seconds": 3.25},
        {"seconds": 4.25},
    ]


def test_a_pattern_of_ones_own_names_what_it_finds() -> None:
    log = log_of(
        "at=1714564800.5 it:5 L=2,500.5 eff=31%\nat=1714564801 it:6 L=nan eff=32%\nsomething else\n",
        r"at=(?P<time>\S+) it:(?P<step>\d+) L=(?P<loss>\S+) eff=(?P<mfu_ratio>\S+)",
    )
    progress = log.progress
    assert progress is not None
    assert (log.format, progress.step.tolist()) == ("pattern", [5, 6])
    assert progress.at_ns.tolist() == [NOON + S // 2, NOON + S]
    assert progress.column("loss")[2].tolist() == [2500.5]
    assert progress.values["mfu_ratio"] == pytest.approx([0.31, 0.32])
    assert [event.what for event in log.events] == ["non_finite"]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"(?P<loss>\d+)", "no group called step"),
        (r"(?P<step>\d+", "no regular expression"),
        (r"(?P<step>\d+) (?P<speed>\d+)", "called speed"),
        (r"(?P<step>(\d+)+)$", "for ever"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_the_mend(pattern: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        log_of("step 1", pattern)


def test_a_pattern_that_matches_nothing_is_an_error_of_one_line() -> None:
    with pytest.raises(InputError, match="matches no line") as caught:
        log_of("step 1 loss 2.0", r"it:(?P<step>\d+)")
    assert "\n" not in str(caught.value)


def test_a_file_that_says_nothing_known_is_refused_with_what_is_read() -> None:
    with pytest.raises(InputError, match=r"none of its 2 lines .*NCCL_DEBUG=INFO"):
        log_of("hello\nworld\n")


def test_a_line_too_long_is_cut_and_said() -> None:
    log = log_of("step 1 loss 2.0\n" + "x" * 20_000 + " step 2 loss 1.0\n")
    assert log.progress is not None
    assert log.progress.step.tolist() == [1]
    assert ("long_lines", 1) in [note[:2] for note in log.notes]


def test_columns_hold_nothing_that_no_line_stated() -> None:
    progress = progress_of("step 1 loss 2.0\nstep 2 loss 1.5 grad_norm 0.5\n")
    assert set(progress.values) == {"loss", "grad_norm"}
    assert math.isnan(progress.values["grad_norm"][0])
    assert progress.at_ns.dtype == progress.step.dtype == np.int64
