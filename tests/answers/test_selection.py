"""`--select`: chosen keys and fields of the JSON report."""

from __future__ import annotations

from typing import Any

import pytest

from tcexplore.answers.selection import BRIEF, BadSelectionError, parse_selection, selected_report
from tcexplore.report.json_records import definitions
from tcexplore.report.json_report import report
from tests import fakes


def selected(text: str) -> dict[str, Any]:
    selection = parse_selection(text)
    return selected_report(report(fakes.complete(6), None, keys=[one.key for one in selection]), selection)


def test_the_main_fields_of_each_key_are_printed():
    chosen = selected("breaks,kernels")
    assert list(chosen) == ["breaks", "kernels"]
    assert list(chosen["breaks"][0]) == ["id", "file", "line", "reason", "fix", "cost"]
    assert "source" not in chosen["kernels"][0]


def test_all_fields_or_single_ones_are_printed_on_request():
    assert len(selected("breaks.*")["breaks"][0]) > 15
    assert list(selected("breaks.stack,breaks.kind")["breaks"][0]) == ["id", "stack", "kind"]
    assert list(selected("breaks,breaks.hints")["breaks"][0])[-1] == "hints"
    assert selected("status,schema") == {"status": fakes.complete(6).status, "schema": 3}


def test_a_part_is_the_same_as_in_the_whole_report():
    whole = report(fakes.complete(6), None)
    for key in definitions()["report"]["properties"]:
        assert report(fakes.complete(6), None, keys=[key]) == {key: whole[key]}


@pytest.mark.parametrize("text", ["brakes", "breaks.stak", "", ",", "breaks.*.x"])
def test_an_unknown_key_is_refused(text: str):
    with pytest.raises(BadSelectionError):
        parse_selection(text)


def test_the_brief_fields_exist():
    for key in BRIEF:
        parse_selection(",".join(f"{key}.{name}" for name in BRIEF[key]))
