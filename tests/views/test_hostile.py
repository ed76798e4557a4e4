"""Names come from files of strangers: no renderer may break on them or pass them on raw."""

from __future__ import annotations

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model import report
from stepscope.model.analysis import Culprit
from stepscope.model.text import LANGS, Lang
from stepscope.views.json import render as as_json
from stepscope.views.markdown import render as as_markdown
from tests.diagnose import build
from tests.views.show import shown

# JSON strings may hold anything but lone surrogates, which the loader has replaced.
_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@settings(max_examples=60, deadline=None)
@given(name=_names, width=st.integers(60, 120), lang=st.sampled_from(LANGS))
def test_any_name_is_printed_without_steering_the_reader(name: str, width: int, lang: Lang) -> None:
    answer = build.told(
        build.rank(
            build.row(input=33 * build.MS, device=report.Device(index=0, name=name)),
            culprits={"input": (Culprit(name, 1, 1, 1, 2),)},
            issues=(report.HealthIssue(code=name, count=1, effect="none", detail=name),),
            operators=(report.Operator(rank=0, name=name, class_=name, count=1, device_ns=1),),
        ),
        inputs=[build.trace(name or "x"), report.Input(kind="trace", name=name, error=name)],
        lang=lang,
    )
    for text in (shown(answer, lang, width), as_markdown(answer, lang)):
        steering = {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\u200b"}
        assert not steering
        assert not set(text) & {"\u2028", "\u2029"}
    raw = as_json(answer)
    assert report.decode(raw) == answer
    assert not {c for c in raw if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c != "\n"}


def test_no_control_character_of_any_plane_stands_raw_in_json() -> None:
    steering = [chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) in ("Cc", "Cf", "Zl", "Zp")]
    answer = build.told(build.rank(build.row()), inputs=[build.trace("".join(steering))])
    raw = as_json(answer)
    assert not set(raw) & set(steering) - {"\n"}
    assert report.decode(raw).inputs == answer.inputs
