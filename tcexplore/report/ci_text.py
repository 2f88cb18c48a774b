"""Issues for GitHub and GitLab: workflow commands, Markdown, and code quality JSON."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator

from tcexplore.documents.strip.verdict_line import run_verdict
from tcexplore.report.ci_issues import CiIssue, IssueLevel
from tcexplore.report.gate_result import GateResult
from tcexplore.session import Snapshot

_SEVERITIES: dict[IssueLevel, str] = {"error": "major", "warning": "minor", "note": "info"}
_COMMANDS: dict[IssueLevel, str] = {"error": "error", "warning": "warning", "note": "notice"}

MARKDOWN_ISSUES = 100
"""Maximum issues in Markdown: GitHub rejects step summaries over 1 MiB."""

CELL = 600
"""Maximum characters in a cell of a table."""

_SPECIAL = re.compile(r"[\\`*_\[\]<>#|~&@]|:(?=//)|(?<=www)\.")


def gitlab(results: tuple[CiIssue, ...]) -> str:
    """Return a code quality report. Allowed breaks are not in it."""
    issues = [
        {
            "description": _plain(f"{issue.title}. {issue.message}"),
            "check_name": f"tcexplore/{issue.rule}",
            "fingerprint": issue.fingerprint,
            "severity": "blocker" if issue.rule == "failure" else _SEVERITIES[issue.level],
            "location": {"path": _plain(issue.path), "lines": {"begin": issue.line}},
        }
        for issue in results
        if not issue.allowed
    ]
    return json.dumps(issues, indent=1) + "\n"


def workflow_commands(results: tuple[CiIssue, ...]) -> Iterator[str]:
    """Yield GitHub's workflow commands, one line each."""
    for issue in results:
        message = f"{issue.message}\nAllowed: {issue.allowed}" if issue.allowed else issue.message
        place = f"file={_property(issue.path)},line={issue.line},title={_property(issue.title)}"
        yield f"::{_COMMANDS[issue.level]} {place}::{_data(message)}"


def stop_commands() -> tuple[str, str]:
    """Return the lines that turn workflow commands off and on: the program's output must not be one."""
    token = secrets.token_hex(16)
    return f"::stop-commands::{token}", f"::{token}::"


def markdown(results: tuple[CiIssue, ...], result: GateResult, snapshot: Snapshot, path: str) -> str:
    """Return a summary for a pull request or a step summary."""
    verdict = " ".join(run_verdict(snapshot).text.split())
    failed = bool(result.exceeded) or snapshot.failure is not None
    lines = [f"### {'❌' if failed else '✅'} tcexplore: {_escaped(path)}", "", _escaped(verdict), ""]
    exceeded = {limit.option: limit.sentence for limit in result.exceeded}
    options = tuple(dict.fromkeys((*result.options, *exceeded)))
    if options:
        lines += ["| limit | result |", "|---|---|"]
        lines += [f"| `--{option}` | {_cell(exceeded.get(option, 'ok'))} |" for option in options] + [""]
    listed = [issue for issue in results if issue.rule != "limit"]
    if listed:
        lines += ["| | where | what |", "|---|---|---|"]
        for issue in listed[:MARKDOWN_ISSUES]:
            state = "allowed" if issue.allowed else issue.level
            text = f"{issue.title}\n{issue.message}" + (f"\nAllowed: {issue.allowed}" if issue.allowed else "")
            lines.append(f"| {state} | {_cell(f'{issue.path}:{issue.line}')} | {_cell(text)} |")
        if len(listed) > MARKDOWN_ISSUES:
            lines.append(f"| | | {len(listed) - MARKDOWN_ISSUES} more |")
        lines.append("")
    lines += [f"- {_escaped(note)}" for note in result.notes]
    return "\n".join(lines).rstrip() + "\n"


def _data(text: str) -> str:
    return _plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _cell(text: str) -> str:
    short = text if len(text) <= CELL else f"{text[:CELL]}…"
    return "<br>".join(_escaped(line) for line in short.splitlines())


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match.group())};", " ".join(_plain(text).split()))


def _plain(text: str) -> str:
    """Return text that UTF-8 can hold, without other line breaks than `\\n` and `\\r`."""
    return re.sub("[\x00\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", "\ufffd", text).encode("utf-8", "replace").decode()
