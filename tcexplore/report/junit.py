"""The result of a run as JUnit XML: one test for the compile, one per limit, one per allowed break."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tcexplore.report.ci_issues import CiIssue
from tcexplore.report.gate_result import GateResult
from tcexplore.session import Snapshot

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
