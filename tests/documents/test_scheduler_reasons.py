"""The explanations of torch's fusion refusals."""

from __future__ import annotations

import pytest

from tcexplore.documents.code.fusion_view import PLAIN, UNEXPLAINED, explain_refusal


def test_explanation_contains_the_figures():
    text = explain_refusal("numel/rnumel mismatch (reduce) (512, 1024), (64, 128)")
    assert all(figure in text for figure in ("512", "1024", "64", "128"))
    assert explain_refusal("device mismatch (cpu vs cuda:0)") == "they run on different devices: cpu and cuda:0"


def test_unknown_reason_has_no_explanation():
    assert explain_refusal("some reason of a later torch") == ""


@pytest.mark.parametrize("reason", [*PLAIN, *UNEXPLAINED])
def test_every_reason_has_an_explanation(reason: str):
    example = reason.replace("%s", "8")
    text = explain_refusal(example)
    assert text
    assert text.lower() != example.lower()
    assert not any(word in text for word in ("node1", "node2", "{", "%s"))


@pytest.mark.torch
def test_most_reasons_of_this_torch_have_an_explanation():
    """Notice a torch version with other reasons; those of single backends need no explanation."""
    import ast
    from pathlib import Path

    import torch

    folder = Path(torch.__file__).parent / "_inductor"
    reasons: set[str] = set()
    for name in ("scheduler.py", "choices.py", "codegen/simd.py"):
        for node in ast.walk(ast.parse((folder / name).read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = node.func.func if isinstance(node.func, ast.Call) else node.func
                if isinstance(called, ast.Name) and called.id in ("why", "WhyNoFuse"):
                    reasons.add(str(node.args[0].value))
    known = {reason for reason in reasons if reason in PLAIN}
    assert len(reasons) > 30
    assert len(known) >= 0.75 * len(reasons), sorted(reasons - known)
