"""Takes secrets out of everything that is shown, and puts pseudonyms in the place of identities.

Secrets (tokens, keys, passwords, credentials in URLs, private keys, environment dumps) go always: public
traces were found with live tokens in their metadata. Identities (host and user names, home paths,
addresses) are replaced in what is exported by pseudonyms that are the same for the same key, so that
"the slow host" keeps one name over all reports of a site that sets its key.

Pure: the key and the names that are known to be identities come in as arguments. Every function is
idempotent: what it puts in is never taken for a secret or an identity again.
"""

from __future__ import annotations

from stepscope.model.redact.identity import (
    NOBODY,
    Identities,
    Pseudonyms,
    identities_in_path,
    identities_in_text,
    identities_in_tree,
    is_address_in_context,
    key_of_inputs,
)
from stepscope.model.redact.line import Open, lines_without_secrets
from stepscope.model.redact.secret import (
    ENVIRONMENT,
    SECRET,
    is_secret_name,
    tree_without_secrets,
    without_secrets,
)
from stepscope.model.redact.whole import (
    Redaction,
    map_strings,
    redact_report,
    redact_trace,
    strings_of,
    trace_without_secrets,
)

__all__ = [
    "ENVIRONMENT",
    "NOBODY",
    "SECRET",
    "Identities",
    "Open",
    "Pseudonyms",
    "Redaction",
    "identities_in_path",
    "identities_in_text",
    "identities_in_tree",
    "is_address_in_context",
    "is_secret_name",
    "key_of_inputs",
    "lines_without_secrets",
    "map_strings",
    "redact_report",
    "redact_trace",
    "strings_of",
    "trace_without_secrets",
    "tree_without_secrets",
    "without_secrets",
]
