"""What differs between two runs of a job by their labels, and the change that this may be."""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.model.incident import Change
from stepscope.model.redact import is_secret_name, without_secrets

COMMIT = (
    "git_commit", "commit", "git_sha", "git_revision", "revision", "vcs_revision",
    "app.kubernetes.io/version", "org.opencontainers.image.revision",
)  # fmt: skip
"""Labels that name the code, most exact first; without regard to case, `-` and `.` as `_`."""
OF_EVERY_RUN = frozenset((
    "run", "restart", "pid", "rank", "local_rank", "pod", "pod_uid", "boot_id", "container_id", "host",
    "hostname", "instance", "node", "uuid", "gpu", "device", "scheduler_job", "slurm_job_id", "job_name",
    "controller_uid", "batch_kubernetes_io_controller_uid", "pod_template_hash", "start_time",
))  # fmt: skip
"""Labels that differ from run to run though nobody changed anything."""
MOST_LENGTH = 200


def config_difference(
    before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, tuple[str | None, str | None]]:
    """Label -> (before, after) of what differs, by name; `None` where a run has no such label.

    Labels that are new in every run are left out, and so is all that may be a secret.
    """
    found = {}
    for key in sorted(before.keys() | after.keys()):
        values = before.get(key), after.get(key)
        if values[0] == values[1] or _plain(key) in OF_EVERY_RUN or is_secret_name(key):
            continue
        found[key] = (_shown(key, values[0]), _shown(key, values[1]))
    return {key: pair for key, pair in found.items() if pair[0] != pair[1]}


def _shown(key: str, value: str | None) -> str | None:
    """A value as it may be shown: what its own name gives away as a secret goes too."""
    if value is None:
        return None
    text, _ = without_secrets(f"{key}={value}")
    return text.partition("=")[2][:MOST_LENGTH]


def commit_of(labels: Mapping[str, str]) -> str | None:
    """The commit that a run's labels name, `None` where none does."""
    plain = {_plain(key): value for key, value in labels.items()}
    return next((plain[_plain(key)] for key in COMMIT if plain.get(_plain(key))), None)


def inferred_change(
    before: Mapping[str, str], after: Mapping[str, str], *, run: str, at_ns: int
) -> Change | None:
    """The change that a new run of the job may be, by its labels; `None` where they say that nothing was
    changed. It is inferred: `by` is stepscope, and whoever knows better records their own."""
    config = config_difference(before, after)
    if not config:
        return None
    commit = commit_of(after)
    is_other_commit = commit is not None and commit != commit_of(before)
    named = [key for key in config if not is_other_commit or _plain(key) not in map(_plain, COMMIT)]
    what = ["another commit"] if is_other_commit else []
    what += [f"{key} {config[key][0] or 'none'} → {config[key][1] or 'none'}" for key in named[:4]]
    what += [f"and {len(named) - 4} more"] if len(named) > 4 else []
    return Change(
        at_ns=at_ns,
        what=f"inferred from the labels of the new run: {', '.join(what)}",
        by="stepscope",
        commit=commit if is_other_commit else None,
        config=config,
        run=run,
    )


def _plain(key: str) -> str:
    return key.lower().replace("-", "_").replace(".", "_").replace("/", "_")
