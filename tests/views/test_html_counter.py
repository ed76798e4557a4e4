"""What a page shows of telemetry and logs: every number, drawn to scale on one axis, and within its size."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from stepscope.model import report
from stepscope.model.text import LANGS, Lang
from stepscope.views.counter import device_rows, host_rows
from stepscope.views.counter_word import event_lines, lag_lines, owner_table, progress_lines
from stepscope.views.html import render
from stepscope.views.html.trend import CHARTED, Axis, axis_of, charts, overlay
from tests.diagnose import build
from tests.views import measured as made
from tests.views.measured import LAG, STEP, T0, S, measured, points, signal, telemetry_alone
from tests.views.test_html import Page, folded
from tests.views.test_html_work import seen, variants

# What a page does not say of these parts, and why.
UNSAID = {
    "signals.unit": "it is in the name and decides how values are written",
    "signals.device.uuid": "a device is shown by its number",
    "signals.device.kind": "a host is shown by its name",
    "events.device.uuid": "a device is shown by its number",
    "events.device.name": "in the table of signals",
    "patterns.device.uuid": "a device is shown by its number",
    "patterns.device.name": "in the table of signals",
    "patterns.as_written.evidence.from_": "telemetry is where the section stands",
    "patterns.effective.evidence.from_": "telemetry is where the section stands",
    "walks.walk": "the title says it",
    "walks.device.uuid": "a device is shown by its number",
    "walks.device.name": "in the table of signals",
    "hints.hint": "the text says it",
    "hints.device.uuid": "a device is shown by its number",
    "hints.device.name": "in the table of signals",
    "hints.evidence.from_": "telemetry is where the section stands",
}


@pytest.mark.parametrize("part", made.PARTS)
def test_every_number_and_name_of_a_part_is_seen(part: str) -> None:
    answer = measured()
    before = seen(answer)
    unseen = []
    for place, row in enumerate(getattr(answer, part)):
        if part == "signals" and place not in (0, 1, 16, 32):
            continue  # the others are alike
        if part == "events" and place > 3:
            continue
        row = replace(row, points=()) if part == "signals" else row
        for where, changed in variants(row, part):
            rows = list(getattr(answer, part))
            rows[place] = changed
            if where not in UNSAID and seen(replace(answer, **{part: tuple(rows)})) == before:
                unseen.append((place, where))
    assert not unseen, unseen


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("make", [measured, telemetry_alone])
def test_a_page_says_what_the_other_views_say(make: type[report.Report], lang: Lang) -> None:
    answer = make(lang)  # type: ignore[call-arg]
    words = Page(render(answer)).words
    told = [*lag_lines(answer, lang), *progress_lines(answer, lang)]
    told += [line for _, line in event_lines(answer, lang)[0]]
    for line in told:
        assert folded(line) in words
    for rows, columns in ((device_rows(answer), made_columns()[0]), (host_rows(answer), made_columns()[1])):
        for line in owner_table(rows, columns, lang)[1]:
            assert all(cell in words for cell in line)


def made_columns() -> tuple:
    from stepscope.views.counter import DEVICE_COLUMNS, HOST_COLUMNS

    return DEVICE_COLUMNS, HOST_COLUMNS


def drawn(answer: report.Report, place: int = 0) -> str:
    rows = device_rows(answer)
    axis = axis_of(rows, answer)
    assert axis is not None
    found = charts(rows[place], axis, answer, "en")
    assert found is not None
    return str(found)


def lines_of(svg: str, look: str = "trend") -> list[str]:
    return re.findall(rf'<path d="([^"]+)" class="{look}"', svg)


def test_a_line_is_drawn_to_scale_on_the_traces_axis() -> None:
    """60 samples of 0.5 with a known lag of 600 ms, the axis 59 s long: half way up, from edge to edge."""
    one = replace(signal(0, "sm_active_ratio", 0.5), by_step=())
    answer = replace(measured(), signals=(one,))
    axis = axis_of(device_rows(answer), answer)
    assert axis == Axis(T0 - 20 * S, T0 + 39 * S)
    (line,) = lines_of(drawn(answer))
    assert line.startswith("M0 20L17 20L34 20")
    assert line.endswith("L1000 20")
    # The window of 16 s begins 20 s in.
    assert 'x="33.9%" width="27.12%" height="100%" class="traced"' in drawn(answer)


def test_a_gap_is_no_line_and_a_lone_sample_is_a_dot() -> None:
    made_ = tuple(point for n, point in enumerate(points(0.5)) if n < 20 or n == 40 or n > 50)
    answer = replace(measured(), signals=(replace(signal(0, "sm_active_ratio", 0.5), points=made_),))
    (line,) = lines_of(drawn(answer))
    assert line.count("M") == 3
    assert re.search(r"M678 20h0M", line)


def test_a_limit_is_the_top_and_a_share_ends_at_all() -> None:
    text = drawn(measured())
    assert "mean 614 W, top 700 W" in text
    assert "mean 71.5 %, top 100.0 %" in text
    assert "mean 1.76 GHz, top 1.98 GHz" in text


def test_where_the_lag_is_not_known_the_span_is_drawn_and_said() -> None:
    page = render(measured())
    counters = page.split('id="counters"')[1].split("</section>")[0]
    # Power of both devices and what the host has: their lags are known to 4 s and 30 s.
    assert len(lines_of(counters, "reach")) == 2 + 6
    assert "The pale area is where a value may lie: the lag is known to 30.0 s only." in counters
    assert "trend raw" not in counters


def section(page: str) -> str:
    return page.split('id="counters"')[1].split("</section>")[0]


def test_beside_a_trace_lines_of_an_unknown_lag_are_dashed() -> None:
    text = section(render(replace(measured(), clocks=None)))
    assert len(lines_of(text, "trend raw")) >= 12
    assert lines_of(text) == []
    assert "Dashed lines lie where they were read" in text


def test_without_a_trace_there_is_nothing_to_lag_behind_and_no_window() -> None:
    text = section(render(telemetry_alone()))
    assert len(lines_of(text)) >= 12
    assert lines_of(text, "trend raw") == []
    assert "traced" not in text


def test_every_piece_says_its_figures_when_pointed_at() -> None:
    text = drawn(measured())
    told = re.findall(r"<title>([^<]+)</title></rect>", text)
    assert "71.0 %–78.4 %, 3 samples, from 0 s to 3.77 s" in told
    assert all(re.search(r"samples?, from .+ to .+", each) for each in told)


def test_clock_reasons_are_drawn_where_they_held() -> None:
    text = drawn(measured(), 1)
    told = re.findall(r"<title>([^<]*power limit[^<]*|[^<]*temperature[^<]*)</title>", text)
    assert [each.partition(" @")[0] for each in told] == [
        "power limit, 10.0 s",
        "temperature (driver), temperature (hardware), 10.0 s",
    ]


def test_under_a_step_samples_are_bars_over_the_time_that_they_describe() -> None:
    """Step 7 is 2 s long and begins on a second; samples are read 600 ms behind, each over 1 s: two bars."""
    answer = measured()
    (timeline,) = answer.timelines
    text = str(overlay(timeline, device_rows(answer), answer, "en"))
    lane = text.split("SM active")[2].split("</svg>")[0]
    bars = re.findall(r'x="([\d.]+)%" width="([\d.]+)%"[^>]*class="level"', lane)
    assert bars == [("0", "50"), ("50", "50")]
    assert timeline.dur_ns == STEP
    assert LAG == 600_000_000
    note = "nvidia-smi.csv: its lag is known to 4.00 s only, which is longer than this step: not drawn"
    assert note in text


def test_under_a_step_of_an_unknown_lag_nothing_is_drawn() -> None:
    answer = replace(measured(), clocks=None)
    (timeline,) = answer.timelines
    text = str(overlay(timeline, device_rows(answer), answer, "en"))
    assert "level" not in text
    assert "dcgm-exporter.prom: nothing tells how far it lags behind: not drawn" in text


def test_limits_are_no_lines_of_their_own() -> None:
    assert {"power_watts", "nvlink_tx_bytes_per_second", "cpu_iowait_ratio"} <= set(CHARTED)
    assert not {"power_limit_watts", "memory_total_bytes", "cpu_cores"} & set(CHARTED)


def test_a_job_of_many_devices_has_a_page_of_a_size_one_can_mail() -> None:
    """64 devices with 12 signals of 60 samples: eight are drawn, and the page says how many are not."""
    names = [name for name in CHARTED if name.endswith(("ratio", "second", "watts"))][:12]
    signals = tuple(
        replace(
            signal(0, name, 0.5),
            device=report.Device(index=n % 8, uuid=f"GPU-{n:08d}"),
            rank=n,
            host=f"node{n // 8}",
        )
        for n in range(64)
        for name in names
    )
    page = render(replace(measured(), signals=signals))
    data = page.split('id="stepscope-report">')[1].split("</script>")[0]
    assert len((page.replace(data, "")).encode()) < 1_000_000
    assert "56 more devices are not drawn." in page


def test_without_telemetry_there_is_no_section() -> None:
    page = render(build.healthy())
    for name in ("counters", "follows", "job"):
        assert f'id="{name}"' not in page
