"""Strict readers of reports for CI systems. Each fails on anything that its format does not allow."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

Object = dict[str, Any]

SARIF_KEYS: dict[str, tuple[set[str], set[str]]] = {
    "log": ({"version", "runs"}, {"$schema"}),
    "run": ({"tool"}, {"invocations", "originalUriBaseIds", "columnKind", "results"}),
    "tool": ({"driver"}, set()),
    "driver": ({"name"}, {"version", "rules", "informationUri"}),
    "rule": ({"id"}, {"shortDescription", "defaultConfiguration", "helpUri"}),
    "invocation": ({"executionSuccessful"}, set()),
    "result": ({"message"}, {"ruleId", "ruleIndex", "level", "locations", "partialFingerprints", "suppressions"}),
    "artifact": ({"uri"}, {"uriBaseId"}),
    "suppression": ({"kind"}, {"status", "justification"}),
}
"""Required and optional keys of SARIF 2.1.0, the optional ones as far as tcexplore writes them."""


def read_sarif(text: str) -> list[Object]:
    """Return the results of a log with one run."""
    log = _keys(json.loads(text), "log")
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    _keys(run, "run")
    driver = _keys(_keys(run["tool"], "tool")["driver"], "driver")
    ids = [_keys(rule, "rule")["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    for rule in driver["rules"]:
        assert rule["shortDescription"].keys() == {"text"}
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    for invocation in run["invocations"]:
        assert isinstance(_keys(invocation, "invocation")["executionSuccessful"], bool)
    for base in run["originalUriBaseIds"].values():
        assert base["uri"].endswith("/")
        assert urlsplit(base["uri"]).scheme
    for result in run["results"]:
        _read_result(result, ids, run["originalUriBaseIds"])
    return run["results"]  # type: ignore[no-any-return]


def _read_result(result: Object, ids: list[str], bases: Object) -> None:
    _keys(result, "result")
    assert ids[result["ruleIndex"]] == result["ruleId"]
    assert result["level"] in ("none", "note", "warning", "error")
    assert result["message"].keys() == {"text"}
    assert result["message"]["text"]
    assert all(isinstance(value, str) and value for value in result["partialFingerprints"].values())
    for location in result["locations"]:
        place = location["physicalLocation"]
        if "region" in place:  # else it is about the whole file
            assert place["region"].keys() == {"startLine"}
            assert place["region"]["startLine"] >= 1
        artifact = _keys(place["artifactLocation"], "artifact")
        assert re.fullmatch(r"[A-Za-z0-9\-._~%/]*|file:///[A-Za-z0-9\-._~%/]*", artifact["uri"]), artifact["uri"]
        assert not re.search("%(?![0-9A-F]{2})", artifact["uri"])
        assert ("uriBaseId" in artifact) is not artifact["uri"].startswith("file:")
        assert artifact.get("uriBaseId", next(iter(bases))) in bases
    for suppression in result.get("suppressions", ()):
        assert _keys(suppression, "suppression")["kind"] in ("inSource", "external")
        assert suppression["status"] in ("accepted", "underReview", "rejected")


def sarif_path(result: Object) -> str:
    """Return the path of a result."""
    return unquote(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


def _keys(value: Object, kind: str) -> Object:
    required, optional = SARIF_KEYS[kind]
    assert required <= value.keys() <= required | optional, kind
    return value


JUNIT_ATTRIBUTES = {
    "testsuites": {"tests", "failures", "errors", "skipped"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testcase": {"name", "classname", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message"},
}
JUNIT_CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure", "error", "skipped"},
    "failure": set[str](),
    "error": set[str](),
    "skipped": set[str](),
}


def read_junit(text: str) -> dict[str, str]:
    """Return the outcome of each test case: `passed` or the tag of its result."""
    root = ElementTree.fromstring(text.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        assert set(element.attrib) == JUNIT_ATTRIBUTES[element.tag]
        assert {child.tag for child in element} <= JUNIT_CHILDREN[element.tag]
        assert "time" not in element.attrib or float(element.attrib["time"]) >= 0
    cases = list(root.iter("testcase"))
    for whole in (root, *root.iter("testsuite")):
        assert int(whole.attrib["tests"]) == len(cases)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(whole.attrib[name]) == sum(case.find(tag) is not None for case in cases)
    assert all(len(case) <= 1 for case in cases)
    return {case.attrib["name"]: case[0].tag if len(case) else "passed" for case in cases}


def read_gitlab(text: str) -> list[Object]:
    """Return the issues of a code quality report."""
    issues = json.loads(text)
    assert isinstance(issues, list)
    for issue in issues:
        assert issue.keys() == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert issue["location"].keys() == {"path", "lines"}
        assert not issue["location"]["path"].startswith("./")
        assert "\\" not in issue["location"]["path"]
        assert issue["location"]["lines"]["begin"] >= 1
        assert issue["description"]
    prints = [issue["fingerprint"] for issue in issues]
    assert len(prints) == len(set(prints))
    return issues


_COMMAND = re.compile(r"::(error|warning|notice) file=([^,:\r\n]*),line=(\d+),title=([^,:\r\n]*)::([^\r\n]*)")


def read_command(line: str) -> tuple[str, str, int, str, str]:
    """Return level, file, line, title and message of a workflow command of GitHub, as its runner does."""
    match = _COMMAND.fullmatch(line)
    assert match is not None, line
    assert len(line.splitlines()) == 1
    level, file, number, title, message = match.groups()
    return level, _decoded(file), int(number), _decoded(title), _decoded(message)


def _decoded(text: str) -> str:
    for code, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, char)
    return text
