"""Cache entries, symbols and answers in the report."""

from __future__ import annotations

import json

from tcexplore import events as ev
from tcexplore.report.json_report import report
from tests.report.check_text import check_text
from tests.snapshots import recompiling


def test_guards_in_json():
    fields = json.loads(json.dumps(report(recompiling.run(), None)))
    first, rest = fields["frames"]
    assert [entry["graph"] for entry in first["entries"]] == ["0/0", "0/1", "0/2", "0/3"]
    assert (first["limit_hit"], first["over_limit"][0]["call"], rest["at_limit"]) == ("recompile_limit", 5, "error")
    assert (first["entries"][1]["compile_s"], first["entries"][0]["failed_entry"]) == (1.25, None)
    special = fields["symbols"][2]["symbols"][0]["specializations"][0]
    assert (special["value"], special["guard"], special["line"]) == ("6", "s17 == 6", 5)
    assert fields["symbols"][2]["zero_one"] == [{"name": "x", "kind": "size", "dim": 0, "value": "1"}]
    fix = {"kind": "tensor", "name": "lr", "dim": None, "values": ["0.1", "0.2"], "other_sizes": [], "blocked_by": None,
           "graphs": ["0/2"], "after_breaks": [], "graph_break": None, "parts": [], "tried": False,
               "avoids": [], "graphs_before": None,
           "graphs_after": None, "problem": None}  # fmt: skip
    assert fix in [{name: value for name, value in each.items() if name != "id"} for each in fields["recompile_fixes"]]
    recompiles, fits, strange = fields["recompile_answers"]
    assert [frame["verdict"] for frame in recompiles["frames"]] == ["recompiles", "unknown"]
    assert recompiles["frames"][0]["entries"][0]["failed"]["kind"] == "int"
    assert (fits["frames"][0]["graph"], strange["problem"]) == ("0/1", "'q7[3]': there is no dtype 'q7'.")


def test_guards_name_no_object_by_its_address():
    code = (
        "___check_type_id(L['f'], 140234567890), type=<class 'int'>",
        "keys[0] == <weakref at 0x7f2c0a1b2c3d; to 'Linear' at 0x7f2c0a1b2d00>",
    )
    guard = ev.Guard(kind="EQUALS_MATCH", source="L['f']", code=code)
    run = recompiling.run().apply(ev.GuardsInstalled(run=1, graph="0/0", guards=(guard,)))
    known = report(run, None)["guards"][-1]
    assert known["code"] == [
        "___check_type_id(L['f']), type=<class 'int'>", "keys[0] == <weakref at 0x…; to 'Linear' at 0x…>",
    ]  # fmt: skip


def test_guards_in_the_printed_report():
    text = check_text(recompiling.run(), 200)
    assert "since call 5, this frame runs eagerly" in text
    assert "0/2  call 3  1.50 s\n    of 0/1: x.size(0)  7 → 1  line 4\n" in text
    assert "specialized to 6  s17 == 6" in text
    assert "would be reused" in text
    assert "The new graph would be dynamic in x.size(0), lr" in text
