"""Secrets in commands and headers, told by the program or the header that takes them."""

from __future__ import annotations

import re

from stepscope.model.redact.pattern import Pattern

# Between two words of a command: blanks, or what parts them in a list; a list is judged joined by zeros.
_GAP = r"(?:[ \t\x00]{1,8}|\\{0,4}[\"'],\s{0,8}\\{0,4}[\"'])"
# How far behind the program's name an option may stand.
_ON = r"[^\n;|]{0,256}?"
_VALUE = r"(?P<value>(?!-|\[secret)[^\s\"'\\\x00]{1,512})"
_QUOTED = rf"[\"']?{_VALUE}"
# A name and a password in one word.
_JOINED = r"[\"']?(?P<value>[^\s\"'GLUE\\\x00]{0,64}GLUE[^\s\"'\\\x00]{1,256})"


def _command(program: str, option: str, value: str = _QUOTED) -> Pattern:
    return Pattern(rf"(?P<head>(?<![\w.-])(?:{program})(?={_GAP}){_ON}{_GAP}(?:{option}){_GAP}?){value}")


_LOGIN_TOOL = r"docker|podman|nerdctl|buildah|skopeo|oras|helm|crane|az|oc|apptainer|singularity|conda|aws"
# (needle, pattern): the value goes.
COMMANDS: tuple[tuple[str, Pattern], ...] = (
    (
        "login",
        Pattern(
            rf"(?P<head>(?<![\w.-])(?:wandb|swanlab|huggingface-cli|hf|comet|modelscope|clearml){_GAP}(?:auth{_GAP})?login"
            rf"(?:{_GAP}--?[a-z][a-z-]{{0,31}}(?:=[^\s\"'\x00]{{0,128}})?){{0,4}}(?:{_GAP}https?://[^\s\"'\x00]{{0,128}})?"
            r"(?=[^A-Za-z0-9\[])" + _GAP + r")(?P<value>(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{20,})"
        ),
    ),
    ("login", _command(rf"(?:{_LOGIN_TOOL}){_GAP}(?:registry{_GAP})?login", "-p|--password")),
    ("sshpass", _command("sshpass", "-p")),
    (
        "mysql",
        Pattern(
            rf"(?P<head>(?<![\w.-])(?:mysql|mysqldump|mysqladmin|mysqlimport)(?={_GAP}){_ON}{_GAP}-p){_QUOTED}"
        ),
    ),
    ("curl", _command("curl|wget", "-u|--user|--proxy-user|-U", _JOINED.replace("GLUE", ":"))),
    ("redis-cli", _command("redis-cli", "-a|--pass")),
    ("mongo", _command("mongo|mongosh|mongodump|mongorestore", "-p")),
    ("ldap", _command("ldapsearch|ldapadd|ldapmodify|ldapwhoami", "-w")),
    ("smbclient", _command("smbclient", "-U", _JOINED.replace("GLUE", "%"))),
    ("-passin", Pattern(rf"(?P<head>-pass(?:in|out)?{_GAP}pass:){_VALUE}")),
    # netrc, on one line or on three
    (
        "password",
        Pattern(rf"(?P<head>\b(?:login|machine|account)\s{{1,8}}[^\s]{{1,128}}\s{{1,8}}password\s{{1,8}}){_VALUE}"),
    ),
    (
        "password",
        Pattern(r"(?P<head>\bpassword\s{1,8})(?P<value>(?=[A-Za-z]{0,64}[0-9])[A-Za-z0-9+/=_-]{20,})"),
    ),
)  # fmt: skip
PROGRAMS = Pattern(
    rf"(?:.*/)?(?:wandb|swanlab|huggingface-cli|hf|comet|modelscope|clearml|{_LOGIN_TOOL}|sshpass|mysql\w*|curl|wget|redis-cli|mongo\w*|ldap\w+|smbclient|openssl)\Z"
)
"""The first word of a command that is worth joining."""
NEEDLES = tuple(sorted({needle for needle, _ in COMMANDS}))

_PARAMETERS = r"(?:[,;]?[ \t]{1,4}[\w-]{1,32}=(?:\\*\"[^\"]{0,512}\"|[^\s\"',;]{1,512}))*"
# `Authorization: <scheme> <value>`: the scheme stays. Digest and its like go on with parameters.
HEADER = Pattern(
    r"(?P<head>\bauthorization\\*[\"']?\s{0,8}[:=]\s{0,8}\\*[\"']?"
    r"(?:(?:bearer|basic|token|digest|negotiate|ntlm|kerberos|hawk|oauth|apikey|api-key|mutual|dpop|key|aws4-hmac-sha256"
    r"|[a-z][a-z0-9-]{1,31}(?=[ \t]{1,4}[A-Za-z0-9+/=._~-]{16}))\s{1,8})?)"
    r"(?P<value>(?!\[secret|[\w-]{1,32}\s{1,8}\[secret|(?:bearer|basic|token|digest|negotiate|ntlm)\s)"
    rf"(?:[\w-]{{1,32}}=\\*\"[^\"]{{0,512}}\"|[^\s\"',;\\]+){_PARAMETERS})",
    re.IGNORECASE,
)
COOKIE = Pattern(
    r"(?P<head>\b(?:set-)?cookie\\{0,4}[\"']?\s{0,8}[:=]\s{0,8}\\{0,4}[\"']?)"
    r"(?P<value>(?!\[secret)[^\s\"'\\=;,]{1,128}=[^\"'\r\n\\]+)",
    re.IGNORECASE,
)
SCHEME = Pattern(
    r"(?P<head>\b(?:bearer|basic)\s+)(?P<value>(?=[A-Za-z._~+/-]*[0-9=])[A-Za-z0-9._~+/-]{8,}=*)",
    re.IGNORECASE,
)
# Without a digit it is a token where the scheme is written as in a header and no word of a sentence follows.
BEARER = Pattern(
    r"(?P<head>\b(?:Bearer|BEARER)\s{1,4}|(?<![^\"':=])bearer\s{1,4})"
    r"(?P<value>(?!(?i:auth|credential|certificate|token|instrument|securit|represent|scheme|header|format|must|is\b))"
    r"[A-Za-z][A-Za-z._~+/-]{9,})(?![A-Za-z0-9._~+/-])"
)
# A password may hold `/`, `:` and `@`: it ends at the last `@` before what may be a host.
URL_CREDENTIALS = Pattern(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,20}://)(?P<value>[^/\s:@\"'\[]*:"
    r"(?:(?!\d{1,5}[/?#])(?:(?!://)[^\s\"'<>]){1,256}(?=@[\w\[.$-]+(?:[:/?#,;\s\"')\]<>&]|\Z))|[^/\s@\"'\[]+)"
    r"|[^/\s:@\"'\[]{16,})@",
    re.IGNORECASE,
)

# `-p` is a password, a port, a partition, a path, a precision: by itself it says nothing.
SHORT_PASSWORD = frozenset(("-p", "-P", "-pw"))
OTHER_P = Pattern(
    r"(?:.*/)?(?:srun|sbatch|salloc|squeue|sinfo|docker|podman|ssh|scp|rsync|mkdir|cp|tar|unzip|nc|kill|ps|perf)\Z"
)
_PRECISION = Pattern(
    r"(?i:(?:bf|fp|float|int|uint|tf|amp)[_-]?\d{1,3}(?:e\dm\d\w{0,4})?|\d{1,3}[-_]?(?:true|mixed|bit))"
)


def is_like_password(word: str) -> bool:
    """Whether the word behind `-p` is one: long and mixed, and neither a path, a list nor a precision."""
    return (
        6 <= len(word) <= 128
        and not word.startswith(("/", ".", "~", "-", "[secret"))
        and re.search(r"[A-Za-z]", word) is not None
        and re.search(r"[^A-Za-z_./,:=-]", word) is not None
        and re.search(r"[\s/=]", word) is None
        and _PRECISION.fullmatch(word) is None
    )
