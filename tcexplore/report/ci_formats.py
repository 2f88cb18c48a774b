"""Issues of a run for CI, and their formats: GitHub, GitLab, JUnit XML, and SARIF 2.1.0."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tcexplore import __version__
from tcexplore import events as ev
from tcexplore.documents.strip import run_verdict
from tcexplore.notebook import describe_cell, is_notebook
from tcexplore.report.gate_result import GateResult
from tcexplore.session import Snapshot
from tcexplore.session.cache_entries import newest_causes
from tcexplore.session.recompile_fixes import MARK_DYNAMIC, recompile_fixes
from tcexplore.session.stable_ids import StableIds, stable_ids

IssueRule = Literal["graph-break", "recompile", "limit", "failure"]
IssueLevel = Literal["error", "warning", "note"]
"""`error`: it exceeds a limit or fails the run. `note`: it is allowed."""

RULES: dict[IssueRule, str] = {
    "graph-break": "A graph break splits the compiled program",
    "recompile": "A guard failed, and the function was compiled again",
    "limit": "A limit of tcexplore check is exceeded",
    "failure": "The model file, or its compile, failed",
}

_BREAK_LIMITS = {"max-breaks", "fullgraph", "allow"}


@dataclass(frozen=True, slots=True)
class CiIssue:
    """A result at a line."""

    rule: IssueRule
    level: IssueLevel
    title: str
    message: str
    path: str
    """Relative to the root with forward slashes; absolute if it lies outside."""
    line: int | None
    """None: it is about the whole file."""
    key: str = ""
    """What the issue is about, which stays the same if lines move."""
    id: str = ""
    """Stable id of the break; empty for another issue."""
    option: str = ""
    """The limit that it is about, without dashes."""
    allowed: str = ""
    """Why it is allowed; empty if it is not."""
    url: str = ""
    fingerprint: str = ""

    @property
    def place(self) -> str:
        """Path and line."""
        return self.path if self.line is None else f"{self.path}:{self.line}"


def repository_root() -> str:
    """Return the nearest folder above the working directory that has `.git`, or else the working directory."""
    start = folder = os.path.realpath(os.curdir)
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return start
        folder = parent
    return folder


def ci_issues(snapshot: Snapshot, result: GateResult) -> tuple[CiIssue, ...]:
    """Return the issues of a run, the worst first. Their paths are relative to the repository."""
    places = _Places(snapshot, repository_root())
    options = {limit.option for limit in result.exceeded}
    unsorted = [
        *_failure(snapshot, places),
        *_limits(result, snapshot, places),
        *_breaks(snapshot, result, places, "error" if options & _BREAK_LIMITS else "warning"),
        *_recompiles(snapshot, places, "error" if "max-recompiles" in options else "warning"),
    ]
    return tuple(_fingerprinted(sorted(unsorted, key=lambda issue: ("error", "warning", "note").index(issue.level))))


class _Places:
    """Lines of the user's repository."""

    def __init__(self, snapshot: Snapshot, root: str) -> None:
        self._root = root.rstrip(os.sep) + os.sep
        self.file = ev.Location(snapshot.file, 1)
        self._model = os.path.realpath(snapshot.file)
        self._source = snapshot.source

    def shown(self, location: ev.Location | None, stack: Iterable[ev.Location] = ()) -> tuple[str, int | None, str]:
        """Return path and line in the repository, and the actual place if that is another one."""
        if location is None:
            return *self._place(self.file), ""
        if (cell := self._cell(location)) is not None:
            return *self._place(self.file), cell
        if self._inside(location):
            return *self._place(location), ""
        caller = next((frame for frame in reversed(tuple(stack)) if self._inside(frame)), self.file)
        return *self._place(caller), f"{location.file}:{location.line}"

    def _cell(self, location: ev.Location) -> str | None:
        """Return the cell of a notebook, and the line in it; None for another file."""
        if not is_notebook(location.file) or os.path.realpath(location.file) != self._model:
            return None
        return describe_cell(self._source, location.line) or None

    def _inside(self, location: ev.Location) -> bool:
        path = os.path.realpath(location.file)
        if path == self._model:  # also outside of the repository
            return True
        return path.startswith(self._root) and "site-packages" not in path

    def _place(self, location: ev.Location) -> tuple[str, int | None]:
        path = os.path.realpath(location.file)
        shown = path[len(self._root) :] if path.startswith(self._root) else path
        line = None if is_notebook(location.file) else max(1, location.line)  # its file is JSON
        return shown.replace(os.sep, "/"), line


def _failure(snapshot: Snapshot, places: _Places) -> Iterator[CiIssue]:
    failed = snapshot.failure
    if failed is not None:
        path, line, elsewhere = places.shown(failed.location)
        message = _joined(f"{failed.type}: {failed.message}", failed.hint, elsewhere)
        yield CiIssue("failure", "error", f"{failed.type} in {failed.stage}", message, path, line, failed.type)


def _limits(result: GateResult, snapshot: Snapshot, places: _Places) -> Iterator[CiIssue]:
    """Yield the limits, except those that breaks or recompiles exceed: these have issues at their lines."""
    path, _, _ = places.shown(None)
    explained = (_BREAK_LIMITS if result.breaks else set()) | ({"max-recompiles"} if snapshot.recompiles else set())
    for limit in result.exceeded:
        if limit.option not in explained:
            yield CiIssue("limit", "error", "Limit exceeded", str(limit), path, None, limit.option, limit.option)


def _breaks(snapshot: Snapshot, result: GateResult, places: _Places, level: IssueLevel) -> Iterator[CiIssue]:
    ids = stable_ids(snapshot)
    for graph_break in result.breaks:
        yield _break(ids, graph_break, places, level)
    for allowed in result.allowed:
        until = f" (until {allowed.expires})" if allowed.expires else ""
        yield replace(_break(ids, allowed.graph_break, places, "note"), allowed=allowed.reason + until)


def _break(ids: StableIds, graph_break: ev.GraphBreak, places: _Places, level: IssueLevel) -> CiIssue:
    path, line, elsewhere = places.shown(graph_break.location, graph_break.stack)
    hints = graph_break.hints or graph_break.registry_hints
    message = _joined(graph_break.reason, f"Try: {hints[0]}" if hints else "", elsewhere)
    id_ = ids.graph_break(graph_break)
    return CiIssue("graph-break", level, f"Graph break: {graph_break.kind}", message, path, line, id_, id_,
                   url=graph_break.url)  # fmt: skip


def _recompiles(snapshot: Snapshot, places: _Places, level: IssueLevel) -> Iterator[CiIssue]:
    marks = [fix for fix in recompile_fixes(snapshot) if fix.kind == MARK_DYNAMIC and fix.helps]
    untried = {(fix.name, fix.dim) for fix in marks if not fix.tried}
    avoids = {graph for fix in marks for graph in fix.avoids}
    for recompile, _ in newest_causes(snapshot):
        if recompile.limit_hit:
            continue
        path, line, elsewhere = places.shown(recompile.location)
        size = recompile.name, recompile.dim
        helps = recompile.kind == "size" and (size in untried or recompile.graph in avoids)
        fix = f"mark_dynamic({recompile.name}, {recompile.dim})" if helps else ""
        message = _joined(
            f"Graph {recompile.graph}: {recompile.reason}", f"Try: torch._dynamo.{fix}" if fix else "", elsewhere
        )
        yield CiIssue("recompile", level, f"Recompile: {recompile.kind or 'guard failed'}", message, path, line,
                      f"{recompile.kind}\n{recompile.name}\n{recompile.dim}")  # fmt: skip


def _joined(text: str, hint: str, elsewhere: str) -> str:
    place = f"The line is {elsewhere}." if elsewhere else ""
    return "\n".join(filter(None, (text.strip(), hint.strip(), place)))


def _fingerprinted(unmarked: Iterable[CiIssue]) -> Iterator[CiIssue]:
    """Yield the issues with a fingerprint that does not depend on line numbers."""
    seen: Counter[str] = Counter()
    for issue in unmarked:
        identity = "\0".join((issue.rule, issue.path, issue.key))
        seen[identity] += 1
        digest = hashlib.sha256(f"{identity}\0{seen[identity]}".encode("utf-8", "backslashreplace")).hexdigest()
        yield replace(issue, fingerprint=digest)


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
            "location": {"path": _plain(issue.path), "lines": {"begin": issue.line or 1}},  # GitLab needs one
        }
        for issue in results
        if not issue.allowed
    ]
    return json.dumps(issues, indent=1) + "\n"


def workflow_commands(results: tuple[CiIssue, ...]) -> Iterator[str]:
    """Yield GitHub's workflow commands, one line each."""
    for issue in results:
        message = f"{issue.message}\nAllowed: {issue.allowed}" if issue.allowed else issue.message
        line = "" if issue.line is None else f",line={issue.line}"
        place = f"file={_property(issue.path)}{line},title={_property(issue.title)}"
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
            lines.append(f"| {state} | {_cell(issue.place)} | {_cell(text)} |")
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
        case = _case(suite, path, f"{allowed.title} at {allowed.place}")
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
    outcome.text = _xml("\n".join(f"{f.place}: {f.title}\n{f.message}" for f in related)) or None


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
    place: dict[str, Any] = {"artifactLocation": _artifact(issue.path)}
    if issue.line is not None:
        place["region"] = {"startLine": issue.line}
    result: dict[str, Any] = {
        "ruleId": issue.rule,
        "ruleIndex": rule,
        "level": issue.level,
        "message": {"text": _text(f"{issue.title}. {issue.message}")},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {
            "tcexplore/v1": issue.fingerprint,
            **({"tcexplore/id": issue.id} if issue.id else {}),
        },
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
