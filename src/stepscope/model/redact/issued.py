"""Secrets that are told by the form their issuer gives them, without any name before them."""

from __future__ import annotations

from stepscope.model.redact.pattern import Pattern

# (needle that must be in the text, pattern). The needle is a plain substring: a text without it costs
# one fast search and no regular expression. Forms as published by each issuer.
_FORMS: tuple[tuple[str, str], ...] = (
    ("hf_", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{16,}"),
    ("gh", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{16,}"),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{16,}"),
    ("glpat-", r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{16,}"),
    ("AKIA", r"(?<![A-Za-z0-9])AKIA[A-Z0-9]{12,}(?![a-z])"),
    ("ASIA", r"(?<![A-Za-z0-9])ASIA[A-Z0-9]{12,}(?![a-z])"),
    ("sk-", r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}"),
    ("sk_", r"(?<![A-Za-z0-9])[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("xox", r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{8,}"),
    ("xapp-", r"(?<![A-Za-z0-9])xapp-[A-Za-z0-9-]{8,}"),
    ("hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{8,}"),
    ("AIza", r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{30,}"),
    ("nvapi-", r"(?<![A-Za-z0-9])nvapi-[A-Za-z0-9_-]{16,}"),
    ("npm_", r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,}"),
    ("pypi-", r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_-]{32,}"),
    ("dckr_pat_", r"dckr_pat_[A-Za-z0-9_-]{16,}"),
    ("ya29.", r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_-]{10,}"),
    ("GOCSPX-", r"(?<![A-Za-z0-9])GOCSPX-[A-Za-z0-9_-]{16,}"),
    ("SG.", r"(?<![A-Za-z0-9_.])SG\.(?=[A-Za-z_.-]{0,80}[0-9])[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("r8_", r"(?<![A-Za-z0-9_])r8_(?=[A-Za-z]{0,40}[0-9])[A-Za-z0-9]{16,}(?![A-Za-z0-9_])"),
    ("tskey-", r"(?<![A-Za-z0-9])tskey-[a-z]{2,12}-[A-Za-z0-9-]{8,}"),
    ("hvs.", r"(?<![A-Za-z0-9_.])hvs\.[A-Za-z0-9_-]{20,}"),
    ("gsk_", r"(?<![A-Za-z0-9_])gsk_[A-Za-z0-9]{20,}"),
    ("pplx-", r"(?<![A-Za-z0-9])pplx-[A-Za-z0-9]{20,}"),
    ("xai-", r"(?<![A-Za-z0-9])xai-[A-Za-z0-9]{20,}"),
    ("wandb_v1_", r"(?<![A-Za-z0-9_])wandb_v1_[A-Za-z0-9_]{16,}"),
    ("tgp_v1_", r"(?<![A-Za-z0-9_])tgp_v1_[A-Za-z0-9_-]{16,}"),
    ("rpa_", r"(?<![A-Za-z0-9_])rpa_[A-Z0-9]{20,}[A-Za-z0-9]*"),
    ("dapi", r"(?<![A-Za-z0-9])dapi[0-9a-f]{32}(?![A-Za-z0-9])"),
    ("dop_v1_", r"(?<![A-Za-z0-9_])dop_v1_[0-9a-f]{16,}"),
    ("ATATT3", r"(?<![A-Za-z0-9])ATATT3[A-Za-z0-9_=-]{16,}"),
    ("lrt-", r"(?<![A-Za-z0-9])glrt-[A-Za-z0-9_-]{16,}"),
    ("eyJ", r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    # key ids of Alibaba, Tencent and Volcengine
    ("LTAI", r"(?<![A-Za-z0-9])LTAI(?=[A-Za-z]{0,30}[0-9])[A-Za-z0-9]{12,30}(?![A-Za-z0-9])"),
    ("AKID", r"(?<![A-Za-z0-9])AKID(?=[A-Za-z]{0,40}[0-9])[A-Za-z0-9]{13,48}(?![A-Za-z0-9])"),
    ("AKLT", r"(?<![A-Za-z0-9])AKLT(?=[A-Za-z]{0,60}[0-9])[A-Za-z0-9]{16,60}(?![A-Za-z0-9])"),
    # who knows the address of a chat's hook may write there
    ("open-apis/bot", r"open-apis/bot/(?:v\d/)?hook/[A-Za-z0-9-]{8,}"),
    ("api/webhooks/", r"api/webhooks/\d+/[A-Za-z0-9_-]{8,}"),
    ("webhook/send?", r"webhook/send\?key=[A-Za-z0-9-]{8,}"),
    ("webhook", r"webhook\.office\.com/[A-Za-z0-9@/_-]{16,}"),
    ("api.telegram.org/bot", r"api\.telegram\.org/bot\d+:[A-Za-z0-9_-]{16,}"),
)
ISSUED = tuple((needle, Pattern(pattern)) for needle, pattern in _FORMS)
