"""`stepscope notify`: whom the server would tell, and what: shown, or sent as a test."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from stepscope.cli import option
from stepscope.model.text import Text

if TYPE_CHECKING:
    from stepscope.act.notify.channel import Message, Settings
    from stepscope.act.notify.deliver import Line
    from stepscope.model.incident import Incident
    from stepscope.model.notice import Notice
    from stepscope.model.report import Report

TEST = Text(en="test, nothing is wrong", zh="测试消息，一切正常")


@click.command("notify", short_help="Shows what the server would tell people, or tests its channels.")
@click.argument("report", required=False, metavar="[REPORT]")
@click.option("--config", required=True, metavar="FILE", help="The channels, in TOML.")
@click.option("--dry-run", is_flag=True, help="Print what each channel would be sent; send nothing.")
@click.option("--test", "is_test", is_flag=True, help="Send each channel a message that says it is a test.")
@option.debug_option
def command(report: str | None, config: str, dry_run: bool, is_test: bool) -> None:
    """Show what each channel of FILE would be sent of REPORT (`diagnose … --format json`), or of the
    packaged sample; with --test send it, marked as a test.
    """
    from stepscope.model.error import UsageError

    if dry_run == is_test:
        raise UsageError("notify: choose one of --dry-run and --test")
    lines = lines_of(config, os.environ)
    if not lines:
        raise UsageError(f"{config}: no [[channel]]; add one")
    failed = []
    for line in lines:
        message = _message(line, _report(report, line.settings), is_test=is_test)
        click.echo(f"── {line.settings.name} ({line.settings.kind}, {line.sender.shown}) ──")
        if dry_run:
            click.echo(line.sender.preview(message) + "\n")
            continue
        sent = line.sender.send(message)
        click.echo("sent" if sent.is_sent else f"not sent: {sent.why}")
        if not sent.is_sent:
            failed.append(line.settings.name)
    if failed:
        from stepscope.model.error import ServiceError

        raise ServiceError(", ".join(failed), "a test message could not be sent", "see the reason above")


def lines_of(path: str, environment: Mapping[str, str], option_name: str = "--config") -> list[Line]:
    """Every channel of a configuration file, set up; `option_name` is the one that named it. UsageError says
    what is wrong in it."""
    from stepscope.act.notify.config import sender_of, settings_of
    from stepscope.act.notify.deliver import Line
    from stepscope.act.notify.secret import secrets_of
    from stepscope.offline.option import read_toml

    secrets = secrets_of(environment)
    told = read_toml(path, f"{option_name} takes a TOML file", '[[channel]], then kind = "webhook", …')
    return [Line(each, sender_of(each, secrets)) for each in settings_of(told)]


def _report(path: str | None, settings: Settings) -> Report:
    """The report as it stands, else that of the packaged sample in the channel's language."""
    from stepscope.model.error import InputError
    from stepscope.model.report import decode

    if path is None:
        from importlib.resources import as_file, files

        from stepscope.cli.demo import SAMPLE
        from stepscope.offline import diagnose

        with as_file(files("stepscope.demo") / SAMPLE) as sample:
            return diagnose([sample], lang=settings.lang, shown_as={str(sample): SAMPLE})
    import msgspec

    try:
        with open(path, "rb") as file:
            return decode(file.read())
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise InputError(path, f"cannot be read: {why}", "give the path of a report that is there") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(path, "no report", "give what stepscope diagnose --format json wrote") from error


def _message(line: Line, report: Report, *, is_test: bool) -> Message:
    import msgspec

    from stepscope.act.notify.deliver import prepared
    from stepscope.views.markup import MARKUPS
    from stepscope.views.notice import notice_of, text_of, title_of

    notice = notice_of(incident_of(report, time.time_ns()), (), report, lang=line.settings.lang)
    if is_test:
        mark = TEST.in_(line.settings.lang)
        notice = msgspec.structs.replace(notice, title=f"({mark}) {notice.title}")

    def text(notice: Notice, markup: str) -> tuple[str, str]:
        return title_of(notice, MARKUPS[markup]), text_of(notice, MARKUPS[markup])

    return prepared(notice, f"preview.{line.settings.name}", line, text, b"stepscope notify")


def incident_of(report: Report, now_ns: int) -> Incident:
    """An incident as if this report were of one that was opened now."""
    from stepscope.model.alarm import About
    from stepscope.model.incident import Incident

    card = report.cards[0] if report.cards else None
    finding = None if card is None else next(each for each in report.findings if each.id == card.findings[0])
    about = About(
        job=None if finding is None else finding.subject.job,
        ranks=() if finding is None else finding.subject.ranks,
    )
    return Incident(
        id="preview",
        about=about,
        severity="info" if finding is None else finding.severity,
        title=report.verdict.text if card is None else card.title,
        rule=None if finding is None else finding.rule,
        card=None if card is None else card.id,
        onset_ns=(card.onset_ns if card is not None else None) or now_ns,
        onset_step=None if card is None else card.onset_step,
        opened_ns=now_ns,
    )
