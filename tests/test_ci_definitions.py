"""The pre-commit hook and the composite action name options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tcexplore.cli.arguments import parse

ROOT = Path(__file__).parents[1]


def test_the_pre_commit_hook_has_valid_arguments():
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    entry = re.search(r"^  entry: tcexplore (.*)$", text, re.MULTILINE)
    request = parse([*shlex.split(entry.group(1)), "model.py", "--max-breaks", "0"])
    assert (request.command, request.target, request.outputs.summary) == ("check", "model.py", True)


def test_the_action_passes_inputs_as_variables_only():
    text = (ROOT / ".github" / "actions" / "check" / "action.yml").read_text()
    script = text.partition("run: |")[2]
    assert "${{" not in script
    options = set(re.findall(r"--[a-z]+", script))
    assert options == {"--github", "--sarif", "--baseline"}
    parse(["check", "model.py", "--github", "--sarif", "x", "--baseline", "y"])
