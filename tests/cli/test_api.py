"""The Python API: two functions, imported on first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stepscope
from stepscope.model.error import InputError, StepscopeError, UsageError


def test_importing_the_package_imports_nothing_else() -> None:
    script = "import sys, stepscope; sys.exit('numpy' in sys.modules or 'click' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = stepscope.nothing_here  # type: ignore[attr-defined]


def test_load_gives_columns(sample: Path) -> None:
    trace = stepscope.load(sample)
    assert trace.num_events == 3836
    names = np.array(trace.names)[trace.spans.name_id]
    # six on the host, and again six on the device's track
    assert sum(name.startswith("ProfilerStep#") for name in names) == 12


def test_load_takes_secrets_out(sample: Path, tmp_path: Path) -> None:
    import gzip

    secret = "hf" + "_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    text = gzip.decompress(sample.read_bytes()).replace(b"aten::stack", b"aten::stack " + secret.encode(), 1)
    (tmp_path / "x.json").write_bytes(
        text.replace(b'"record_shapes"', b'"note": "' + secret.encode() + b'", "record_shapes"', 1)
    )
    trace = stepscope.load(tmp_path / "x.json")
    assert secret not in repr(trace.names)
    assert secret not in repr(trace.metadata)
    assert stepscope.diagnose(tmp_path / "x.json").inputs[0].redacted == 2


def test_load_of_what_is_no_trace_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("not a trace")
    with pytest.raises(InputError):
        stepscope.load(tmp_path / "x.json")


def test_diagnose_takes_one_path_or_many(sample: Path) -> None:
    one = stepscope.diagnose(sample)
    assert one == stepscope.diagnose([sample]) == stepscope.diagnose(str(sample))
    assert one.findings[0].rule == "input-starvation"
    assert one.tool.version == stepscope.__version__


def test_thresholds_can_be_given_as_a_mapping(sample: Path) -> None:
    report = stepscope.diagnose(sample, rules_config={"input-starvation": {"idle_input_share": 0.9}})
    assert "input-starvation" not in [finding.rule for finding in report.findings]
    with pytest.raises(UsageError, match="no-such-rule"):
        stepscope.diagnose(sample, rules_config={"no-such-rule": {"x": 1}})


def test_no_input_is_an_error() -> None:
    with pytest.raises(StepscopeError):
        stepscope.diagnose([])


NONSENSE = (
    ("lang", "fr", "lang is 'fr'; give 'en' or 'zh'"),
    ("lang", None, "lang is None; give 'en' or 'zh'"),
    ("jobs", 0, "jobs is 0; give 1 or more"),
    ("jobs", 2.5, "jobs is 2.5; give 1 or more"),
    ("jobs", None, "jobs is None; give 1 or more"),
    ("rank", -1, "rank is -1; give 0 or more, or None for all"),
    ("steps", 5, "steps is 5; give (first, last), the smaller first, as in (5, 9)"),
    ("steps", (9, 5), "steps is (9, 5); give (first, last), the smaller first, as in (5, 9)"),
    ("steps", ("a", "b"), "steps is ('a', 'b'); give (first, last), the smaller first, as in (5, 9)"),
    ("job", 5, "job is 5; give a name"),
    ("rules_config", 5, "rules_config is 5; give a TOML file, or {rule: {feature: number}}"),
    ("redact_key", b"site", "redact_key is a bytes; give a text"),
    ("model_flops", 0, "model_flops is 0; give a number of operations above 0, or None"),
    ("model_flops", 1e12, "model_flops is 1000000000000.0; give a number of operations above 0, or None"),
    ("log_pattern", 5, "log_pattern is 5; give a pattern with a group named step, or None"),
    ("parameters", 8e9, "parameters is 8000000000.0; give a text, as in '8e9' or '8B', or None"),
    ("on_progress", "x", "on_progress is 'x'; give a function"),
    ("shown_as", [("a", "b")], "shown_as is [('a', 'b')]; give {path: name}"),
)


@pytest.mark.parametrize(("option", "value", "said"), NONSENSE)
def test_an_option_that_makes_no_sense_is_refused_in_one_line(
    sample: Path, option: str, value: object, said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        stepscope.diagnose([sample], **{option: value})  # type: ignore[arg-type]
    assert (str(refused.value), refused.value.exit_code) == (said, 2)


def test_every_option_that_can_make_no_sense_is_among_them() -> None:
    import inspect

    options = {
        p.name for p in inspect.signature(stepscope.diagnose).parameters.values() if p.kind is p.KEYWORD_ONLY
    }
    assert {option for option, _, _ in NONSENSE} == options - {"keep_identities", "telemetry", "logs"}


@pytest.mark.parametrize("paths", [None, 5, [None]])
def test_what_is_no_path_is_refused(paths: object) -> None:
    with pytest.raises(UsageError, match="give a path or several"):
        stepscope.diagnose(paths)  # type: ignore[arg-type]


def test_a_number_of_numpy_is_a_number(sample: Path) -> None:
    one, two = np.int64(11), np.int64(12)
    assert stepscope.diagnose(sample, steps=(one, two), jobs=np.int64(1)).window is not None  # type: ignore[arg-type]


def test_a_name_can_be_shown_in_the_place_of_a_path(sample: Path) -> None:
    report = stepscope.diagnose([sample], shown_as={str(sample): "a run"})
    assert [i.name for i in report.inputs] == ["a run"]


def test_the_rank_is_read_from_the_name_where_the_trace_does_not_say(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "rank7.json.gz").write_bytes(sample.read_bytes())
    assert [i.rank for i in stepscope.diagnose(tmp_path / "rank7.json.gz").inputs] == [7]
    assert [i.rank for i in stepscope.diagnose(sample).inputs] == [None]


def test_the_process_in_a_file_name_is_no_rank(sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "trainer17_4242.1700000000000000000.pt.trace.json.gz"
    path.write_bytes(sample.read_bytes())
    assert [i.rank for i in stepscope.diagnose(path).inputs] == [None]


def test_a_name_that_disagrees_with_the_trace_is_said(eight_ranks: Path, tmp_path: Path) -> None:
    (tmp_path / "rank3.json.gz").write_bytes((eight_ranks / "rank5.json.gz").read_bytes())
    report = stepscope.diagnose(tmp_path / "rank3.json.gz")
    assert [i.rank for i in report.inputs] == [5]
    said = [issue.detail for issue in report.health.issues if issue.code == "rank_conflict"]
    assert said == ["distributedInfo says rank 5, the file name says 3"]


def test_the_function_stays_when_the_folder_of_its_name_is_imported(sample: Path) -> None:
    script = (
        "import sys, stepscope\nfirst = stepscope.diagnose(sys.argv[1])\n"
        "from stepscope.diagnose import Options\nimport stepscope.diagnose.word as word\n"
        "assert stepscope.diagnose(sys.argv[1]) == first and Options and word\n"
        "from stepscope import diagnose\nassert diagnose(sys.argv[1]) == first\n"
    )
    done = subprocess.run([sys.executable, "-c", script, sample], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_shows_the_public_function() -> None:
    import inspect
    import pydoc

    from stepscope import offline
    from stepscope.diagnose import Options

    shown = pydoc.plain(pydoc.render_doc(stepscope.diagnose))
    assert Options.__name__ not in shown
    for option in inspect.signature(offline.diagnose).parameters:
        assert option in shown
    assert "analyses" not in shown
    assert "The report of one or more traces" in shown
    assert inspect.signature(stepscope.diagnose) == inspect.signature(offline.diagnose)
    assert (stepscope.diagnose.__doc__ or "").startswith("The report of one or more traces")
