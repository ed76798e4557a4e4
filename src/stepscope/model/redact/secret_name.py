"""Names whose value is a secret, and the values that stand under such a name without being one."""

from __future__ import annotations

import re

from stepscope.model.redact.pattern import Pattern

# Words that say secret wherever a name ends in them, even glued to what is before (`PGPASSWORD`).
_GLUED = (
    r"pass(?:word|wd|phrase|code)|pswd|pwd|secret(?:s|[_-]?key|[_-]?access[_-]?key)?|api[_-]?keys?"
    r"|access[_-]?keys?(?:[_-]?id)?|private[_-]?key|credentials?"
    r"|(?:csrf|xsrf|php|j|connect[.]|session)[_-]?sess(?:ion)?id"
)
# Words that say so only by themselves: `token` as the last word, since num_tokens, token_ids and tokenizer
# are a model's.
_APART = (
    r"authorization|signature|sig|cookie"
    r"|(?:account|shared|storage|signing|encryption|master|ssh|deploy|auth|subscription|service)[_-]?key"
    r"|(?:auth|access|refresh|bearer|session|bot|hf|github|gh|gitlab|wandb|api|csrf|xsrf|id|my|app|user|slack)?token"
)
_SERVICE_KEY = (
    r"(?:wandb|kaggle|comet|neptune|openai|anthropic|hf|huggingface|mlflow|clearml|modelscope|dashscope|deepseek"
    r"|azure|aws|gcp|github|gitlab|slack|feishu|dingtalk|swanlab|langsmith|tavily|serper|stripe|sendgrid|datadog|dd"
    r"|newrelic|sentry|cohere|mistral|groq|together|replicate|runpod|vast|lambda|modal|ngc|redact)[_-]?key"
)
WORDS = rf"{_GLUED}|authorization|{_APART}|token|sessionid|pass|pw|auth|key"
"""What the last word of such a name may be, for a search; `is_secret_name` decides."""

# What may stand behind that word: a number, who may what with it, where it is for.
_FOR = (
    r"\d{1,3}|read|write|readonly|readwrite|ro|rw|prod|production|dev|devel|development|stage|staging|test|testing"
    r"|qa|uat|live|sandbox|base|old|new|backup|bak|main|primary|secondary|admin|root|org|team|personal|work|ci|bot"
    r"|private|internal|external|hf|hub|gh|github|gitlab|wandb|aws|gcp|azure|us|eu|cn|ap"
)
_SUFFIX = Pattern(rf"(?:(?<=[A-Za-z])\d{{1,3}}|[_.-](?:{_FOR}))\Z", re.IGNORECASE)
# Behind a password anything may stand that does not speak about it: where it lies, how long it is.
_PASSWORD_SUFFIX = Pattern(
    r"(?P<name>.*(?:pass(?:word|wd|phrase)|passcode|pswd))[_.-](?!(?:.*[_.-])?(?:file|files|path|paths|dir|name|names|id"
    r"|ids|field|fields|policy|length|len|min|max|count|num|prompt|hint|manager|store|env|var|type|kind|format|required"
    r"|enabled|disabled|strength|reset|expiry|expires|age|location|url|uri|ref|auth|algorithm|hasher|hashers|validator"
    r"|validators|based|less|protected|input|entry|box|callback|cmd|command|source|authentication)\Z)[A-Za-z0-9_.-]+\Z",
    re.IGNORECASE | re.DOTALL,
)
SUFFIX = r"(?:\d{1,3}|(?:[_.-][A-Za-z0-9]{1,24}){1,3})"

# `pass` is also what a test says, what a compiler does and what a model does forward. It is a password in
# the name of an environment variable, and behind the name of what a password opens.
_PASS_NAME = Pattern(
    r"(?:^|[_.-])PASS$|(?:^|[^A-Za-z])(?i:db|database|user|usr|admin|root|mysql|pg|postgres|redis|mongo|smtp|imap|mail"
    r"|ftp|sftp|http|proxy|ssh|ldap|amqp|rabbitmq|mqtt|auth|login|api|registry|docker|sudo|rpc|keystore)"
    r"[_-]?(?i:pass|pw)$|[a-z](?:Pass|Pw)$"
)
_NO_PASS = Pattern(
    r"(?:forward|backward|fwd|bwd|first|second|third|last|single|multi|two|one|num|low|high|band|render|graph"
    r"|optimi[sz]ation|opt|compile|compiler|fusion|grad|test|tests|full|warmup|inference|train|eval|prefill|decode"
    r"|lowering|codegen|post|pre|sub|joint|custom|inductor|triton|all|each|per|no|by|check|ci)[_.-]?pass$",
    re.IGNORECASE,
)
_SECRET_NAME = Pattern(
    rf"(?:{_GLUED}|(?:^|[^a-z])(?:{_APART}|{_SERVICE_KEY}|sessionid))$|(?:^|_)AUTH$|(?:^|[^a-z])_auth$|^auth$",
    re.IGNORECASE,
)
_CAMEL_NAME = Pattern(
    r"[a-z](?:Password|Passwd|Secret|(?:Secret|Api|Access|Private|Account|Shared|Storage|Auth|Signing)Key|Token)$"
)
# The last word of many a name is "key"; what stands under one of these is looked at.
_SOME_KEY = Pattern(
    r"(?!(?i:.*(?:cache|primary|foreign|sort|partition|hash|shard|group|index|lookup|public|row|map|dict|graph|kernel"
    r"|compile|query|config|autotune|state|routing|prng|rng|hot|on)_?key)$)(?:.*[A-Za-z0-9]_KEY|.*[a-z0-9]_key)$",
    re.DOTALL,
)
# Special tokens of a tokenizer, not credentials.
_MODEL_TOKENS = Pattern(
    r"(?:^|[_-])(?:pad|eos|bos|cls|sep|mask|unk|image|video|audio|next|last|first|prev|start|end|stop|special|per|bpe|"
    r"new|tool|think|fim|boi|eoi)[_-]token$",
    re.IGNORECASE,
)
_OPENING_KEY = Pattern(
    r"(?:shared|storage|signing|encryption|master|ssh|deploy|auth|subscription|service)[_-]?key$",
    re.IGNORECASE,
)
_NOT_A_SECRET = frozenset(
    ("", "none", "null", "nil", "true", "false", "yes", "no", "0", "1", "unset", "undefined", "n/a", "***")
)
# Other names of fields: `["password", "username"]` is a list of columns.
FIELDS = frozenset(
    "user username login email name host hostname port url uri path database db server id key value".split()
)


def _core(name: str) -> str:
    """The name without what stands behind its last word: `HF_TOKEN` of `HF_TOKEN_READ`."""
    behind_password = _PASSWORD_SUFFIX.match(name)
    if behind_password:
        return behind_password["name"]
    for _ in range(2):
        suffix = _SUFFIX.search(name[-32:])
        if suffix is None:
            return name
        name = name[: len(name) - len(suffix[0])]
    return name


def is_secret_name(name: str) -> bool:
    """Whether a value under this name (an environment variable, a JSON key) is a secret."""
    if _is_secret_core(name):
        return True
    core = _core(name)
    return core != name and not core.lower().endswith(("sig", "signature")) and _is_secret_core(core)


def _is_secret_core(name: str) -> bool:
    if _MODEL_TOKENS.search(name):
        return False
    if _SECRET_NAME.search(name) or _CAMEL_NAME.search(name) or _SOME_KEY.match(name):
        return True
    return bool(_PASS_NAME.search(name)) and not _NO_PASS.search(name)


def is_opaque(value: str, least: int) -> bool:
    """Whether a value is long and mixed as what nobody has to remember."""
    return (
        len(value) >= least
        and re.fullmatch(r"[A-Za-z0-9+/=_.~%-]+", value) is not None
        and re.search("[0-9]", value) is not None
        and re.search("[A-Za-z]", value) is not None
        and not value.startswith(("/", "."))
    )


def is_secret_value(name: str, value: str) -> bool:
    """Whether what stands under a name that says secret is one."""
    bare = value.strip("\\\"' \t")
    if bare.lower() in _NOT_A_SECRET or bare.startswith(("[secret", "[environment")):
        return False
    core = _core(name)
    lowered = core.lower()
    if lowered.endswith("token"):  # a count or a special token is not a credential
        return len(bare) >= 6 and not re.fullmatch(r"[0-9.,eE+-]+|<.*", bare)
    if lowered.endswith(("sig", "signature")):  # a function's, more often than a document's
        return is_opaque(bare, 8) and not re.fullmatch(r"[a-z]+(?:_[a-z]+)*(?:_?\d+)?", bare)
    if lowered.endswith("pwd"):  # also the working directory
        return len(bare) >= 4 and not bare.startswith(("/", "("))
    if lowered.endswith("auth"):  # whether or how, more often than with what
        return len(bare) >= 6 and (is_opaque(bare, 6) or bare.endswith("="))
    if lowered.endswith("sessionid"):
        return is_opaque(bare, 16)
    if lowered.endswith("cookie"):
        return "=" in bare
    if lowered.endswith(("pass", "pw")):  # how many passed is no password
        return len(bare) >= 3 and not re.fullmatch(
            r"[0-9.,/%eE+-]+|(?i:passed|failed|pass|fail|skip|ok)", bare
        )
    if _OPENING_KEY.search(core):  # where a key lies and which one of many it is are no key
        return len(bare) >= 8 and not re.fullmatch(r"[0-9.]+|[/~.].*|[a-z]+(?:[_.-][a-z]+)*", bare)
    if not _SECRET_NAME.search(core) and not _CAMEL_NAME.search(core) and _SOME_KEY.match(core):
        return is_opaque(bare, 6 if core.isupper() else 32)
    return True
