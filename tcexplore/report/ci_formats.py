"""Issues in the formats of CI systems: GitHub, GitLab, JUnit XML, and SARIF 2.1.0."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tcexplore import __version__
from tcexplore.documents.strip.verdict_line import run_verdict
from tcexplore.report.ci_issues import RULES, CiIssue, IssueLevel, repository_root
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


# ---- JUnit


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""

_EXPLAINED_BY = {"max-breaks": "graph-break", "fullgraph": "graph-break", "allow": "graph-break",
                 "max-recompiles": "recompile"}  # fmt: skip


def junit(results: tuple[CiIssue, ...], result: GateResult, snapshot: Snapshot, path: str) -> str:
    """Return the test suite of one run of the file at `path`."""
    seconds = f"{sum(spent for _, spent in snapshot.phase_seconds):.3f}"
    suite = Element("testsuite", name=f"tcexplore {_xml(path)}", time=seconds)
    compiles = _case(suite, path, "compiles")
    compiles.set("time", seconds)
    for failed in (issue for issue in results if issue.rule == "failure"):
        _outcome(compiles, "error", failed.title, [failed])
    for option in dict.fromkeys((*result.options, *(limit.option for limit in result.exceeded))):
        case = _case(suite, path, f"--{option}")
        sentences = [limit.sentence for limit in result.exceeded if limit.option == option]
        if sentences:
            related = [issue for issue in results if issue.rule == _EXPLAINED_BY.get(option) and not issue.allowed]
            _outcome(case, "failure", "; ".join(sentences), related)
    for allowed in (issue for issue in results if issue.allowed):
        case = _case(suite, path, f"{allowed.title} at {allowed.path}:{allowed.line}")
        SubElement(case, "skipped", message=_xml(f"allowed: {allowed.allowed}"))
    whole = Element("testsuites")
    for element in (suite, whole):
        element.set("tests", str(len(suite)))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(name, str(len(suite.findall(f"*/{tag}"))))
    whole.append(suite)
    indent(whole)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(whole, encoding="unicode")}\n'


def _case(suite: Element, path: str, name: str) -> Element:
    return SubElement(suite, "testcase", classname=_xml(path), name=_xml(name), time="0.000")


def _outcome(case: Element, tag: str, message: str, related: Iterable[CiIssue]) -> None:
    outcome = SubElement(case, tag, message=_xml(message), type=tag)
    outcome.text = _xml("\n".join(f"{f.path}:{f.line}: {f.title}\n{f.message}" for f in related)) or None


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


# ---- SARIF


SCHEMA_URL = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

ROOT = "SRCROOT"


def sarif(results: tuple[CiIssue, ...], snapshot: Snapshot) -> str:
    """Return the log of one run."""
    used = [rule for rule in RULES if any(issue.rule == rule for issue in results)]
    driver = {
        "name": "tcexplore",
        "version": __version__,
        "rules": [
            {
                "id": rule,
                "shortDescription": {"text": RULES[rule]},
                "defaultConfiguration": {"level": "warning" if rule in ("graph-break", "recompile") else "error"},
            }
            for rule in used
        ],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": snapshot.failure is None}],
        "originalUriBaseIds": {ROOT: {"uri": Path(repository_root()).as_uri().rstrip("/") + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(issue, used.index(issue.rule)) for issue in results],
    }
    return json.dumps({"$schema": SCHEMA_URL, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _result(issue: CiIssue, rule: int) -> dict[str, Any]:
    place = {"artifactLocation": _artifact(issue.path), "region": {"startLine": issue.line}}
    result: dict[str, Any] = {
        "ruleId": issue.rule,
        "ruleIndex": rule,
        "level": issue.level,
        "message": {"text": _text(f"{issue.title}. {issue.message}")},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"tcexplore/v1": issue.fingerprint},
    }
    if issue.allowed:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": _text(issue.allowed)}]
    return result


def _artifact(path: str) -> dict[str, str]:
    """Return the location of a file as a URI, relative to the root of the repository if it is inside."""
    if os.path.isabs(path):
        return {"uri": f"file://{quote(os.fsencode(path))}"}
    return {"uri": quote(os.fsencode(path)), "uriBaseId": ROOT}


def _text(text: str) -> str:
    """Return text that a UTF-8 file can hold. Braces would be placeholders of a message."""
    return text.encode("utf-8", "replace").decode().replace("{", "{{").replace("}", "}}")
