"""Addresses of a Prometheus: what each says, and that none gives its secret away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.error import UsageError
from stepscope.sources.prometheus.url import OPTIONS, Endpoint, endpoint_of, is_prometheus_url, matchers


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "prefix", "shown"),
    [
        ("prometheus+http://h:9090", "http", "h", 9090, "", "prometheus+http://h:9090"),
        ("prometheus+http://h", "http", "h", 80, "", "prometheus+http://h"),
        ("prometheus+https://h/", "https", "h", 443, "", "prometheus+https://h"),
        ("PROMETHEUS+HTTP://H:9090/", "http", "h", 9090, "", "prometheus+http://h:9090"),
        (
            "prometheus+http://h:8481/select/0/prometheus/",
            "http", "h", 8481, "/select/0/prometheus", "prometheus+http://h:8481/select/0/prometheus",
        ),
        ("prometheus+http://h/p/api/v1", "http", "h", 80, "/p", "prometheus+http://h/p"),
        ("prometheus+http://[::1]:9090", "http", "::1", 9090, "", "prometheus+http://[::1]:9090"),
        ("prometheus+http://me:pw@h:1/x", "http", "h", 1, "/x", "prometheus+http://h:1/x"),
    ],
)  # fmt: skip
def test_an_address_says_where_to_ask(
    text: str, scheme: str, host: str, port: int, prefix: str, shown: str
) -> None:
    at = endpoint_of(text)
    assert (at.scheme, at.host, at.port, at.prefix, at.shown) == (scheme, host, port, prefix, shown)


def test_only_its_own_schemes_are_a_prometheus() -> None:
    assert is_prometheus_url("prometheus+http://h")
    assert is_prometheus_url("Prometheus+HTTPS://h")
    assert not is_prometheus_url("http://h:9090")
    assert not is_prometheus_url("prometheus.prom")
    assert not is_prometheus_url("/data/prometheus+http")


def test_options_are_read() -> None:
    at = endpoint_of(
        'prometheus+http://h?match={cluster="a",pod=~\'x.+\'}&match=job!="b"&host=n1&host=n2'
        "&step=30s&query_timeout=2m&start=1700000000&end=2023-11-15T00:00:00+01:00"
    )
    assert at.match == ('cluster="a"', "pod=~'x.+'", 'job!="b"')  # a + of a pattern is no blank
    assert at.hosts == ("n1", "n2")
    assert (at.step_ns, at.query_seconds) == (30_000_000_000, 120.0)
    assert (at.start_ns, at.end_ns) == (1_700_000_000_000_000_000, 1_700_002_800_000_000_000)


def test_credentials_come_from_the_address_or_the_environment() -> None:
    at = endpoint_of("prometheus+http://me%40corp:p%3Aw%2F@h")
    assert (at.user, at.password, at.token) == ("me@corp", "p:w/", None)
    at = endpoint_of("prometheus+http://h?token_env=T", {"T": " tok-en \n"})
    assert (at.user, at.password, at.token) == (None, None, "tok-en")
    at = endpoint_of("prometheus+http://me@h?password_env=P", {"P": "pw"})
    assert (at.user, at.password) == ("me", "pw")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("prometheus+http://", "names no host"),
        ("prometheus+http://:9090", "names no host"),
        ("prometheus+http://h:0", "names no host"),
        ("prometheus+http://h:99999", "unreadable"),
        ("prometheus+http://[::1", "unreadable"),
        ("prometheus+http://h i", "unreadable"),
        ("prometheus+http://h\n:1", "unreadable"),
        ("prometheus+ftp://h", "not the address"),
        ("prometheus+http:h", "names no host"),
        ("prometheus+http://h#x", "fragment"),
        ("prometheus+http://h?query=up", "'query' is no option"),
        ("prometheus+http://h?step", "'step' is no option"),
        ("prometheus+http://h?step=fast", "step is no duration"),
        ("prometheus+http://h?step=0s", "step is no duration"),
        ("prometheus+http://h?step=1s&step=2s", "given twice"),
        ("prometheus+http://h?start=2026-01-31T12:00:00", "start is no time"),  # no zone: a guess
        ("prometheus+http://h?start=1700000000000", "not milliseconds"),
        ("prometheus+http://h?start=nan", "no time of our age"),
        ("prometheus+http://h?start=20&end=10", "ends before it starts"),
        ('prometheus+http://h?match=up{a="b"}', "no list of label matchers"),
        ("prometheus+http://h?match=a=b", "no list of label matchers"),
        ('prometheus+http://h?match=a="b"}) or vector(1', "no list of label matchers"),
        ("prometheus+http://h?token_env=T", "which is not set"),
        ("prometheus+http://me:pw@h?token_env=SET", "a token and a user"),
        ("prometheus+http://h?password_env=SET", "goes with a user"),
        ("prometheus+http://h?token_env=ODD", "no header can carry"),
        ("prometheus+http://h/" + "x" * 9000, "unreadable"),
    ],
)
def test_what_is_no_address_is_said_in_one_line(text: str, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        endpoint_of(text, {"SET": "x", "ODD": "a\r\nX-Evil: 1"})
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


SECRET = "hunter2-Zq9"


@pytest.mark.parametrize(
    "text",
    [
        f"prometheus+http://me:{SECRET}@h:9090",
        f"prometheus+http://me:{SECRET}@h:port",
        f"prometheus+http://me:{SECRET}@",
        f"prometheus+http://me:{SECRET}/x@h",
        f"prometheus+http://me:{SECRET}@h#x",
        f"prometheus+http://me:{SECRET}@h?nonsense=1",
        f"prometheus+ftp://me:{SECRET}@h",
        f"prometheus+http://h?token={SECRET}",
        f"prometheus+http://me:{SECRET}@h?start=x",
        f"prometheus+http://me:{SECRET}@h i",
    ],
)
def test_a_secret_of_an_address_is_never_shown(text: str) -> None:
    at = _either(text)
    assert SECRET not in (str(at) if isinstance(at, UsageError) else at.shown)
    assert SECRET not in repr(at)
    assert not isinstance(at, UsageError) or at.__cause__ is None


@given(st.text(max_size=60))
def test_any_text_behind_the_scheme_is_an_address_or_wrong_usage(text: str) -> None:
    at = _either("prometheus+http://" + text)
    if isinstance(at, UsageError):
        assert "\n" not in str(at)
    else:
        assert at.host
        assert at.prefix.isascii()


def _either(text: str) -> Endpoint | UsageError:
    try:
        return endpoint_of(text)
    except UsageError as error:
        return error


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
            st.sampled_from(["=", "!=", "=~", "!~"]),
            st.from_regex(r'"([a-z0-9 ,{}=.+*|]|\\.){0,10}"', fullmatch=True),
        ),
        max_size=4,
    )
)
def test_a_list_of_matchers_comes_back_as_it_was_written(rows: list[tuple[str, str, str]]) -> None:
    written = ["".join(row) for row in rows]
    assert list(matchers("{" + " , ".join(written) + "}", "x")) == written


def test_every_option_has_a_line_of_help() -> None:
    assert all(OPTIONS.values())
