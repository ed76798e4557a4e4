"""Hosts: their names by form, and where programs of this field write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from stepscope.model.redact.name import PSEUDONYM
from stepscope.model.redact.pattern import Pattern

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
# Parts of a model, not of a network: `encoder.layer1.local` is no host.
_MODULE = (
    r"(?:encoder|decoder|layers?|attn|attention|mlp|conv|norm|embeddings?|blocks?|pooler|proj|model|backbone|features"
    r"|module|transformer|stem|fc|ffn|experts?|stages?|dropout|self_attn)\d{0,4}"
)
INTERNAL = Pattern(
    r"(?<![\w.@/-])(?P<host>(?=[a-z.-]*[0-9-])"
    rf"(?!\d+\.)(?!{_MODULE}\.)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.(?!\d+\.)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
    r"\.(?:internal|local|localdomain|lan|corp|intra|intranet|amazonaws\.com|cloudapp\.net|svc))(?![\w-])",
    re.IGNORECASE,
)
_INTERNAL_ENDS = (".internal", ".local", ".lan", ".corp", ".intra", ".amazonaws.", ".cloudapp.", ".svc")
_MODULE_LABEL = Pattern(rf"{_MODULE}\Z", re.IGNORECASE)
_EC2 = Pattern(r"(?<![\w-])ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?![\w-])")
# A name of three labels or more, judged by `is_fully_qualified`.
_DOTTED = Pattern(
    r"(?<![\w.@/-])[A-Za-z][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63}){2,8}(?![\w(\[-]|\.\w)", re.IGNORECASE
)
_HOST_WORD = (
    r"(?:dgx|hgx|gpu|cpu|node|nid|compute|comp|worker|login|head|master|cn|gn|srv|server|host|vm|slurm|hpc|cluster"
    r"|frontend|submit|storage)[a-z]{0,3}-?\d"
)
_HOST_LABEL = Pattern(
    rf"(?:{_HOST_WORD}|(?!(?:us|eu|ap|ca|sa|af|me|il)-[a-z]+-\d)"
    r"(?!(?:download|cdn|dl|docs|files|www|repo|mirror|api|static|s3)[0-9-])[a-z0-9]*-[a-z0-9-]*\d)",
    re.IGNORECASE,
)
_SITE_END = Pattern(r"\.(?:edu|gov|mil|(?:ac|edu|gov)\.[a-z]{2})\Z", re.IGNORECASE)
_DOMAIN_END = Pattern(
    r"\.(?:com|org|net|(?:co|com|org|net|or|go|re)\.[a-z]{2}|de|fr|uk|nl|se|fi|dk|ch|at|it|es|be|cz|pl|no|jp|cn|kr|tw|sg"
    r"|hk|au|nz|ca|us|br|il|ru|eu|ie|gr|hu|si|sk|ee|lv|lt|lu|ro|bg|hr|tr|za|mx)\Z",
    re.IGNORECASE,
)
_URL_HOST = Pattern(
    r"(?P<head>\b(?P<scheme>tcp|grpc|ssh|sftp|smb|cifs|nfs|afp|hdfs|rsync|redis|postgres|postgresql|mysql|mongodb|amqp"
    rf"|zmq|ucx|https?)://(?:[^/\s@\"']{{0,128}}@)?)(?!{PSEUDONYM})(?P<name>[A-Za-z0-9][A-Za-z0-9.-]{{0,252}})"
)
_UNC = Pattern(
    rf"(?P<head>(?<![\w\\:.)\]])(?:\\\\(?!\\)(?=[\w.-]+\\[\w$])|\\{{4}}(?!\\)(?=[\w.-]+\\\\[\w$])))"
    rf"(?!{PSEUDONYM})(?P<name>[A-Za-z0-9][A-Za-z0-9.-]{{1,252}})(?=\\)"
)
_NAMED_HOST = Pattern(
    r"(?P<head>(?<![A-Za-z0-9])(?P<key>host|host_?name|node_?name|fqdn|SLURMD_NODENAME|MASTER_ADDR)\\*[\"']?\s*[=:](?![:=])\s*\\*[\"']?)"
    rf"(?!{PSEUDONYM})(?P<name>{NAME})",
    re.IGNORECASE,
)
# Several hosts, some as Slurm folds them: `gpu[03-07,9],login1:29500`.
_FOLDED = r"[A-Za-z][\w.-]{0,252}(?:\[[\d,-]{1,256}\][\w.-]{0,64})?"
_HOST_LIST = Pattern(
    r"(?P<head>(?:(?<![\w-])--?(?:master[_-]addr(?:ess)?|rdzv[_-]endpoint|hosts?|hostname|host[_-]?list|node[_-]?list"
    r"|node[_-]name|head[_-]node|coordinator[_-]address|H(?=[ \t]{1,4}[\w.-]{1,252}:\d))"
    r"(?:[ \t]{1,4}|=|\\{0,4}[\"'],\s{0,4}\\{0,4}(?=[\"']))"
    r"|(?:(?<![A-Za-z0-9])|(?<=_))(?:(?:host|node)_?list|rdzv_endpoint|master_addr|coordinator_address|(?:head|master)_node)"
    r"\\{0,4}[\"']?\s{0,4}[=:](?![:=])\s{0,4}\\{0,4})[\"']?)"
    rf"(?P<list>{_FOLDED}(?::\d{{1,5}})?(?:,{_FOLDED}(?::\d{{1,5}})?){{0,1024}})",
    re.IGNORECASE,
)
_ONE_OF_LIST = Pattern(rf"(?P<head>\A|,)(?P<name>{_FOLDED})")
_FOLD = Pattern(r"(?P<before>[A-Za-z][\w.-]{0,252})\[(?P<numbers>[\d,-]{1,256})\](?P<after>[\w.-]{0,64})\Z")
_MOST_UNFOLDED = 1024
# `gpu03:1234:1234 [0] NCCL INFO`, `connect to (gpu03, 29500)`, `[gpu03]:29500`.
_NCCL = Pattern(r"(?P<head>)(?<![\w.@/-])(?P<name>[A-Za-z][\w.-]{0,252})(?=:\d{1,10}:\d{1,10} \[\d{1,4}\])")
_SOCKET = Pattern(
    r"(?P<head>\b(?:connect(?:ed|ing|ion)? (?:to|from|with)|address(?:es)? of|socket (?:on|to|at|from)"
    r"|listen(?:ing)? on|bind(?:ing)? to|bound to|accept(?:ed|ing)? (?:on|from)"
    r"|server (?:on|at)|endpoint|peer|host)[ \t]{1,4}\()"
    r"(?P<name>[A-Za-z][\w.-]{0,252})(?=, ?\d{2,5}\))"
)
_BRACKETED = Pattern(r"(?P<head>(?<![\w\])])\[)(?P<name>[A-Za-z][\w.-]{0,252})(?=\]:\d{4,5}(?!\d))")
# `<host>_<pid>.<time>.pt.trace.json`, the name a profiler's TensorBoard handler gives.
_HANDLER_FILE = Pattern(
    r"(?<![\w.-])(?P<host>[A-Za-z][A-Za-z0-9.-]*)_\d+\.\d{10,}(?:\.\d+)?\.pt\.trace\.json"
)  # fmt: skip


def is_fully_qualified(name: str) -> bool:
    """Whether a dotted name is a host's: it begins as hosts do and ends as domains do."""
    first = name.split(".", 1)[0]
    if not any(char.isdigit() for char in first):
        return False
    if any(map(_MODULE_LABEL.match, name.split(".")[:-1])):
        return False
    if _SITE_END.search(name):
        return True
    return bool(_DOMAIN_END.search(name) and _HOST_LABEL.match(first))


def is_host_like(name: str) -> bool:
    """Whether a word may be a host's name where a node of a graph may be named too."""
    return "_" not in name and any(char.isdigit() or char in "-." for char in name)


def _unfolded(name: str) -> Iterator[str]:
    """Every host of `gpu[03-07,9]`, or the name itself."""
    fold = _FOLD.match(name)
    if fold is None:
        yield name
        return
    left = _MOST_UNFOLDED
    for span in fold["numbers"].split(","):
        first, _, last = span.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            continue
        for number in range(int(first), min(int(last or first), int(first) + left - 1) + 1):
            left -= 1
            yield f"{fold['before']}{number:0{len(first)}}{fold['after']}"


def hosts_of_list(text: str) -> Iterator[str]:
    """Every host that a list names, as Slurm or a launcher writes it."""
    for one in _ONE_OF_LIST.finditer(text):
        yield from filter(is_host_like, _unfolded(one["name"]))


def hosts_in_text(text: str) -> Iterator[str]:
    """Names of hosts that a text gives away by its form."""
    if "\\" in text:
        yield from (match["name"] for match in _UNC.finditer(text))
    if "." in text:
        for match in _DOTTED.finditer(text):
            if is_fully_qualified(match[0]):
                yield match[0]
                first = match[0].split(".", 1)[0]
                if _HOST_LABEL.match(first):
                    yield first
    if ".pt.trace" in text:
        yield from (match["host"] for match in _HANDLER_FILE.finditer(text))
    for pattern in _written(text):
        yield from (match["name"] for match in pattern.finditer(text))
    if _may_list(text):
        for match in _HOST_LIST.finditer(text):
            yield from hosts_of_list(match["list"])
    if "=" in text or ":" in text:
        yield from (match["name"] for match in _NAMED_HOST.finditer(text) if _is_named_host(match))


def _may_list(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in ("addr", "host", "node", "endpoint")) or "-H" in text


def _written(text: str) -> Iterator[Pattern]:
    """The patterns of programs' own forms that a text calls for."""
    if ":" in text and "[" in text:
        yield _NCCL
        yield _BRACKETED
    if "(" in text and ", " in text:
        yield _SOCKET


def _is_named_host(match: re.Match[str]) -> bool:
    return not match["key"].lower().startswith("node") or is_host_like(match["name"])


def replace_urls(text: str, named: Callable[[str], str], is_address: Callable[[str], bool]) -> str:
    """The text with the hosts of its URLs and file servers replaced by `named`."""

    def url_host(match: re.Match[str]) -> str:
        name = match["name"].rstrip(".")
        if match["scheme"].startswith("http"):
            is_host = bool(is_fully_qualified(name) and re.match(_HOST_WORD, name, re.IGNORECASE))
        else:
            is_host = not is_address(name)
        return f"{match['head']}{named(name) if is_host else name}{match['name'][len(name) :]}"

    if "://" in text:
        text = _URL_HOST.sub(url_host, text)
    if "\\" in text:
        text = _UNC.sub(lambda match: f"{match['head']}{named(match['name'])}", text)
    return text


def replace_hosts(text: str, named: Callable[[str], str], pseudonym: Callable[[str, str], str]) -> str:
    """The text with its hosts replaced: by `pseudonym`, or by `named`, which may keep."""

    def by_name(match: re.Match[str]) -> str:
        return f"{match['head']}{named(match['name'])}"

    if "." in text:
        lowered = text.lower()
        if any(end in lowered for end in _INTERNAL_ENDS):
            text = INTERNAL.sub(lambda match: pseudonym("host", match["host"]), text)
        text = _DOTTED.sub(
            lambda match: pseudonym("host", match[0]) if is_fully_qualified(match[0]) else match[0], text
        )
    if "ip-" in text:
        text = _EC2.sub(lambda match: pseudonym("host", match[0]), text)
    if ".pt.trace" in text:
        text = _HANDLER_FILE.sub(
            lambda match: named(match["host"]) + match[0][len(match["host"]) :],
            text,
        )
    for pattern in _written(text):
        text = pattern.sub(by_name, text)
    if _may_list(text):
        text = _HOST_LIST.sub(lambda match: match["head"] + _ONE_OF_LIST.sub(by_name, match["list"]), text)
    if "=" in text or ":" in text:
        text = _NAMED_HOST.sub(lambda match: by_name(match) if _is_named_host(match) else match[0], text)
    return text
