"""Issues as a SARIF 2.1.0 log."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tcexplore import __version__
from tcexplore.report.ci_issues import RULES, CiIssue, repository_root
from tcexplore.session import Snapshot

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
