"""The fixture `tcexplore`: what torch did, in the test's process."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo

from tcexplore.exploration import Call, Explorer
from tests.pytest_plugin import counting
from tests.pytest_plugin.models import Encoder, Tabular

# Dynamo reads gradients of tensors that are no leaves, which warns.
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]

KINDS = ("breaks", "recompiles", "sizes", "graphs", "pieces")


def body_lines(function: Callable[..., Any]) -> int:
    """Return the lines of a function without its signature and docstring."""
    (parsed,) = ast.parse(inspect.getsource(function)).body
    assert isinstance(parsed, ast.FunctionDef)
    first = parsed.body[1 if ast.get_docstring(parsed) else 0]
    return (parsed.end_lineno or 0) - first.lineno + 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_test_with_the_fixture_catches_the_regression_in_fewer_lines(kind: str, tcexplore: Explorer):
    by_hand, with_fixture = getattr(counting, f"{kind}_by_hand"), getattr(counting, f"{kind}_with_fixture")
    by_hand(regressed=False)
    with_fixture(tcexplore, regressed=False)
    with pytest.raises(AssertionError):
        by_hand(regressed=True)
    with pytest.raises(AssertionError, match=r"\d allowed\n  tests/pytest_plugin/models.py:\d+: "):
        with_fixture(tcexplore, regressed=True)
    assert body_lines(with_fixture) < body_lines(by_hand)


def test_the_message_names_reason_line_and_fix(tcexplore: Explorer):
    with pytest.raises(AssertionError) as failed:
        tcexplore.explore(Encoder(regressed=True), torch.ones(2, 8), backend="eager").assert_no_breaks()
    line = 1 + inspect.getsource(sys.modules[Encoder.__module__]).splitlines().index(
        "            torch._dynamo.graph_break()"
    )
    assert str(failed.value).startswith(f"1 graph break, 0 allowed\n  tests/pytest_plugin/models.py:{line}: ")
    assert "\n    Try: " in str(failed.value)
    shown = {entry.path.name for entry in failed.traceback if not entry.ishidden(failed)}
    assert "exploration.py" not in shown, "the failure shows the line of the test only"


def test_records_are_typed_and_outputs_are_returned(tcexplore: Explorer):
    calls: list[Call] = [{"rows": torch.ones(3, 8)}, (torch.zeros(5, 8),)]
    result = tcexplore.explore(Tabular(), calls=calls)
    assert [graph.graph for graph in result.graphs] == ["0/0", "0/1"]
    assert {recompile.kind for recompile in result.recompiles} == {"size"}
    assert {kernel.language for kernel in result.kernels} == {"cpp"}
    assert torch.equal(result.outputs[1], torch.zeros(5, 8).softmax(0))


def test_torch_is_as_before_afterwards(tcexplore: Explorer):
    convert = torch._dynamo.convert_frame
    before = (convert._compile, torch._dynamo.reset, torch._inductor.config.fx_graph_cache)
    with pytest.raises(ZeroDivisionError):
        tcexplore.explore(lambda x: x / (1 // 0), torch.ones(2), backend="eager")
    assert (convert._compile, torch._dynamo.reset, torch._inductor.config.fx_graph_cache) == before


def test_a_context_watches_compiles_of_the_test_itself(tcexplore: Explorer):
    model = Encoder()
    with tcexplore.watch(model) as result:
        compiled = torch.compile(model, backend="eager")
        compiled(torch.ones(2, 8))
        assert len(result().graphs) == 1
        compiled(torch.ones(3, 8))
    with pytest.raises(AssertionError, match="1 recompile, 0 allowed"):
        result().assert_max_recompiles(0)


def test_loading_the_plugin_imports_nothing_else():
    code = "import sys, pytest; old = set(sys.modules); import tcexplore.pytest_plugin; print(*set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - {"tcexplore._version"} == {"tcexplore", "tcexplore.pytest_plugin"}
