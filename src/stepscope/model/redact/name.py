"""What is a name of somebody, what only stands where one does, and what stands in its place."""

from __future__ import annotations

import ipaddress
import re

from stepscope.model.redact.pattern import Pattern

# What `Pseudonyms.name` gives; never taken for an identity again.
PSEUDONYM = r"(?:host|user|ip|mail|mac)-[0-9a-f]{8}(?![0-9A-Za-z])"

# Words that are no one's name although they stand where a name does.
NO_NAMES = frozenset(
    "root user admin nobody default none null unknown localhost local host node worker master test ubuntu "
    "debian centos ec2-user docker container python torch cuda linux home shared public data job "
    # Words of our own sentences: a pseudonym in their place would make nonsense of a report.
    "server namenode "
    "step steps rank ranks device devices kernel kernels trace traces train trainer training time copy "
    "copies launch launches queue idle input loader waiting communication computing stream event events "
    "batch model gpu cpu rule finding card share the and for with before after work found next check "
    "change cause health issue note first".split()
)
RANKISH = Pattern(r"^(?:rank|worker|trace)[-_.]?\d*$", re.IGNORECASE)


def is_somebody(name: str) -> bool:
    return len(name) >= 3 and name.lower() not in NO_NAMES and not name.isdigit() and not RANKISH.match(name)


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
