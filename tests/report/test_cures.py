"""Cures as text and as JSON, and the command line that asks for them."""

from __future__ import annotations

import json
from io import StringIO

from tcexplore import events as ev
from tcexplore.cli.arguments import parse
from tcexplore.fixes.attempted_fixes import AttemptedFixes
from tcexplore.fixes.proposals import proposals
from tcexplore.fixes.verification import Proof
from tcexplore.report.text.cures import print_cures
from tcexplore.studies.fixes.fixes_json import cures
from tests.fixes.test_proof import BEFORE, FILE, GRAPH, ITEM, SAME, TEXT, broken, proof, run
from tests.studies.playing import MACHINE

TIMED = ev.ChangeTimed(before_us=200, after_us=100, speedup=2.0, low=1.9, high=2.1, verdict="faster", pairs=20)


def treated() -> list[AttemptedFixes]:
    still = Proof(proposals(FILE, TEXT, 5, ITEM)[0], BEFORE.breaks[1], BEFORE, run(GRAPH, broken(5, ITEM), SAME))
    return [
        AttemptedFixes(1, BEFORE.breaks[0], (proof(broken(6, ITEM), SAME, TIMED),)),
        AttemptedFixes(2, BEFORE.breaks[1], (still,)),
        AttemptedFixes(3, broken(9, "no such kind")),
    ]


def test_the_text_has_diff_and_proof_and_says_that_nothing_was_written():
    page = StringIO()
    print_cures(BEFORE, treated(), MACHINE, stream=page)
    text = page.getvalue()
    for words in (
        "✔ proven: in eager calls alone", "+    if not torch.compiler.is_compiling():", "2 graph breaks before, 1 now",
        "200 µs before, 100 µs now: 2.00× [1.90, 2.10], faster", "✖ tried: keep it a tensor: the break is still there",
        "No change of these lines is known", "1 of 3 breaks with a proven cure", "nothing was written: --write does",
    ):  # fmt: skip
        assert words in " ".join(text.split()) or words in text, words


def test_the_json_has_every_attempt():
    fields = json.loads(json.dumps(cures(BEFORE, treated(), MACHINE, written=(), stopped=False)))
    assert [one["cured"] for one in fields["breaks"]] == [True, False, False]
    first = fields["breaks"][0]["tried"][0]
    assert (first["proven"], first["why_not"], first["speed"]["speedup"]) == (True, None, 2.0)
    assert fields["breaks"][1]["tried"][0]["why_not"] == "the break is still there"


def test_the_command_line_asks_for_one_break_and_for_writing():
    request = parse(["cure", "model.py", "--break", "2", "--write", "--train"])
    assert (request.command, request.study.number, request.study.write, request.config.train) == ("cure", 2, True, True)
    assert parse(["cure", "model.py"]).study.write is False
