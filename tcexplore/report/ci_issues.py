"""Issues of a run for CI systems: graph breaks, recompiles, exceeded limits, and the failure."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from tcexplore import events as ev
from tcexplore.report.gate_result import GateResult
from tcexplore.session import Snapshot
from tcexplore.session.recompile_fixes import MARK_DYNAMIC, recompile_fixes

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
    line: int
    key: str = ""
    """What the issue is about, which stays the same if lines move."""
    option: str = ""
    """The limit that it is about, without dashes."""
    allowed: str = ""
    """Why it is allowed; empty if it is not."""
    url: str = ""
    fingerprint: str = ""


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
        *_limits(result, places),
        *_breaks(result, places, "error" if options & _BREAK_LIMITS else "warning"),
        *_recompiles(snapshot, places, "error" if "max-recompiles" in options else "warning"),
    ]
    return tuple(_fingerprinted(sorted(unsorted, key=lambda issue: ("error", "warning", "note").index(issue.level))))


class _Places:
    """Lines of the user's repository."""

    def __init__(self, snapshot: Snapshot, root: str) -> None:
        self._root = root.rstrip(os.sep) + os.sep
        self.file = ev.Location(snapshot.file, 1)

    def shown(self, location: ev.Location | None, stack: Iterable[ev.Location] = ()) -> tuple[str, int, str]:
        """Return path and line in the repository, and the actual place if that is another one."""
        if location is None:
            return *self._place(self.file), ""
        if self._inside(location):
            return *self._place(location), ""
        caller = next((frame for frame in reversed(tuple(stack)) if self._inside(frame)), self.file)
        return *self._place(caller), f"{location.file}:{location.line}"

    def _inside(self, location: ev.Location) -> bool:
        path = os.path.realpath(location.file)
        return path.startswith(self._root) and "site-packages" not in path

    def _place(self, location: ev.Location) -> tuple[str, int]:
        path = os.path.realpath(location.file)
        shown = path[len(self._root) :] if path.startswith(self._root) else path
        return shown.replace(os.sep, "/"), max(1, location.line)


def _failure(snapshot: Snapshot, places: _Places) -> Iterator[CiIssue]:
    failed = snapshot.failure
    if failed is not None:
        path, line, elsewhere = places.shown(failed.location)
        message = _joined(f"{failed.type}: {failed.message}", failed.hint, elsewhere)
        yield CiIssue("failure", "error", f"{failed.type} in {failed.stage}", message, path, line, failed.type)


def _limits(result: GateResult, places: _Places) -> Iterator[CiIssue]:
    path, line, _ = places.shown(None)
    for limit in result.exceeded:
        yield CiIssue("limit", "error", "Limit exceeded", str(limit), path, line, limit.option, limit.option)


def _breaks(result: GateResult, places: _Places, level: IssueLevel) -> Iterator[CiIssue]:
    for graph_break in result.breaks:
        yield _break(graph_break, places, level)
    for allowed in result.allowed:
        until = f" (until {allowed.expires})" if allowed.expires else ""
        yield replace(_break(allowed.graph_break, places, "note"), allowed=allowed.reason + until)


def _break(graph_break: ev.GraphBreak, places: _Places, level: IssueLevel) -> CiIssue:
    path, line, elsewhere = places.shown(graph_break.location, graph_break.stack)
    hints = graph_break.hints or graph_break.registry_hints
    message = _joined(graph_break.reason, f"Try: {hints[0]}" if hints else "", elsewhere)
    key = f"{graph_break.kind}\n{graph_break.code.strip()}"
    return CiIssue("graph-break", level, f"Graph break: {graph_break.kind}", message, path, line, key,
                   url=graph_break.url)  # fmt: skip


def _recompiles(snapshot: Snapshot, places: _Places, level: IssueLevel) -> Iterator[CiIssue]:
    newest = {recompile.graph: recompile for recompile in reversed(snapshot.recompiles) if not recompile.limit_hit}
    dynamic = {(fix.name, fix.dim) for fix in recompile_fixes(snapshot) if fix.kind == MARK_DYNAMIC}
    for recompile in reversed(newest.values()):
        path, line, elsewhere = places.shown(recompile.location)
        fix = f"mark_dynamic({recompile.name}, {recompile.dim})" if (recompile.name, recompile.dim) in dynamic else ""
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
