"""Every sample in a real worker: the results and the edits that its comment describes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tcexplore.documents.timing.regions_view import suggest_region_fix
from tcexplore.session import Snapshot
from tcexplore.session.compile_time import BACKWARD, BACKWARD_AGAIN, COMPILE, RECOMPILE, RegionTimeline, timeline
from tests.report.whole_report import validate
from tests.samples.exploring import SAMPLES, Explorer, extern, fuses, generated, lines
from tests.supervisor.runs import Runs

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def explorer(shared_runs: Runs) -> Iterator[Explorer]:
    with Explorer(shared_runs) as explorer:
        yield explorer


def is_one_graph(snapshot: Snapshot) -> bool:
    """Return whether the file compiled into one graph without an error."""
    assert snapshot.failure is None, snapshot.failure
    return (len(snapshot.graphs), len(snapshot.breaks)) == (1, 0)


def test_mlp_has_one_break_that_one_edit_removes(explorer: Explorer):
    before = explorer.explore("mlp.py")
    assert [break_.location.line for break_ in before.breaks] == lines(before, "sigmoid().item()")
    assert len(before.graphs) == 2
    after = explorer.explore("mlp.py", ("sigmoid().item()", "sigmoid()"))
    assert is_one_graph(after)
    assert generated(after, fuses("sub", "hardswish")), "ops on both sides of the break are fused"
    assert not generated(before, fuses("sub", "hardswish"))


def test_each_marked_line_of_graph_breaks_has_a_break_and_the_fixed_form_has_none(explorer: Explorer):
    broken = explorer.explore("graph_breaks.py")
    assert sorted(break_.location.line for break_ in broken.breaks) == lines(broken, "# BREAK")
    assert len(broken.graphs) > 4
    assert is_one_graph(explorer.explore("graph_breaks.py", ("model = Broken()", "model = Fixed()"), backend="eager"))
    assert is_one_graph(explorer.explore("graph_breaks.py", entry="Fixed", backend="eager"))


@pytest.mark.parametrize("function", ["printed", "scaled", "chosen", "disabled"])
def test_graph_breaks_can_be_fixed_one_at_a_time(explorer: Explorer, function: str):
    chain = "disabled(chosen(scaled(printed(x))))"
    fixed = explorer.explore(
        "graph_breaks.py", (chain, chain.replace(f"{function}(", f"{function}_fixed(")), backend="eager"
    )
    assert len(fixed.breaks) == 3


def test_not_breaks_has_no_graph_break(explorer: Explorer):
    assert is_one_graph(explorer.explore("not_breaks.py"))


def test_fusion_is_one_kernel_until_a_matmul_splits_it(explorer: Explorer):
    fused = explorer.explore("fusion.py")
    assert is_one_graph(fused)
    (kernel,) = fused.code.kernels
    assert fuses("layer_norm", "gelu", "mul", "add")(kernel)
    statements = ("h = self.norm(x)", "h = F.gelu(h)", "h = h * self.scale", "return h + self.shift")
    assert {place.line for place in kernel.source_lines} >= {lines(fused, text)[-1] for text in statements}
    split = explorer.explore(
        "fusion.py", ("        h = F.gelu(h)", "        h = h @ self.weight\n        h = F.gelu(h)")
    )
    assert (len(generated(split)), len(extern(split))) == (2, 1)


def test_entropy_is_one_kernel_even_with_two_results(explorer: Explorer):
    one = explorer.explore("entropy.py")
    assert is_one_graph(one)
    (kernel,) = one.code.kernels
    assert fuses("softmax", "log", "mul", "sum")(kernel)
    (both,) = explorer.explore("entropy.py", (".sum(dim=-1)", ".sum(dim=-1), p")).code.kernels
    assert both.bytes_written > kernel.bytes_written


def test_attention_materializes_its_scores_between_two_matmuls(explorer: Explorer):
    written_out = explorer.explore("attention.py")
    assert is_one_graph(written_out)
    assert [kernel.language == "extern" for kernel in written_out.code.kernels] == [True, False, True]
    assert fuses("softmax", "masked_fill", "div")(generated(written_out)[0])
    fused = explorer.explore("attention.py", ("model = Scores()", "model = Fused()"))
    assert "scaled_dot_product" in " ".join(extern(fused)[0].ops)
    assert len(extern(fused)) == 1


def test_branching_compiles_each_branch_once(explorer: Explorer):
    both = explorer.explore("branching.py")
    assert [graph.graph for graph in both.graphs] == ["0/0", "0/1"]
    (recompiled,) = both.recompiles
    assert "residual" in recompiled.failed_guard
    assert [call.compiles for call in both.calls if call.variant == "compiled"] == [1, 1, 0]
    sizes = ("[(x, True), (x, False), (x, True)]", "[(x, True), (x[:16], True), (x[:8], True)]")
    dynamic = explorer.explore("branching.py", sizes, backend="eager")
    assert len(dynamic.graphs) == 2
    assert any("s" in "".join(node.shape or ()) for node in dynamic.graphs[1].nodes)


def test_conv_bn_fuses_normalization_and_relu(explorer: Explorer):
    inference = explorer.explore("conv_bn.py")
    assert is_one_graph(inference)
    assert len(extern(inference)) == 2
    assert len(generated(inference, fuses("batch_norm", "relu"))) == 2
    training = explorer.explore("conv_bn.py", ("(16, 32)).eval()", "(16, 32))"))
    assert is_one_graph(training)
    assert sum(len(k.source) for k in generated(training)) > sum(len(k.source) for k in generated(inference))


def test_a_transformer_block_fuses_the_ops_between_matmuls(explorer: Explorer):
    block = explorer.explore("transformer_block.py")
    assert is_one_graph(block)
    assert len(extern(block)) == 5
    assert generated(block, fuses("add", "layer_norm"))
    post = explorer.explore(
        "transformer_block.py",
        ("x = x + self.attention(self.norm1(x))", "x = self.norm1(x + self.attention(x))"),
    )
    assert len(generated(post)) == len(generated(block)) - 1
    lines_of_norms = {line for kernel in generated(post, fuses("layer_norm")) for line in kernel.source_lines}
    assert len(lines_of_norms) >= 2


def test_the_language_model_trains(explorer: Explorer):
    trained = explorer.explore("language_model.py", train=True)
    assert is_one_graph(trained)
    assert {kernel.phase for kernel in generated(trained)} == {"forward", "backward"}
    assert any(fuses("layer_norm_backward")(k) for k in generated(trained) if k.phase == "forward")


def test_the_language_model_ties_its_weights(explorer: Explorer):
    tied = explorer.explore("language_model.py", ("tied = False", "tied = True"), train=True, backend="aot_eager")
    assert is_one_graph(tied)


def test_a_function_compiles_as_a_module_does(explorer: Explorer):
    plain = explorer.explore("function.py")
    assert is_one_graph(plain)
    assert plain.entry.kind == "function"
    assert len(plain.code.kernels) == 1
    low = explorer.explore("function.py", ("inputs = (x, gate", "inputs = (x.bfloat16(), gate"))
    assert is_one_graph(low)
    assert "BFloat16" in low.code.kernels[0].source or "bf16" in low.code.kernels[0].source


def test_a_tensor_as_learning_rate_avoids_a_recompile_of_the_optimizer_step(explorer: Explorer):
    def regions(*edits: tuple[str, str], **config: Any) -> dict[str, RegionTimeline]:
        run = explorer.explore("training_loop.py", *edits, **config)
        return {one.region.name: one for one in timeline(run).regions}

    few = ("steps = 12", "steps = 6")
    floats = regions()
    assert [mark.kind for mark in floats["Sequential"].marks] == [COMPILE, BACKWARD]
    assert [(mark.kind, mark.call) for mark in floats["Adam.step"].marks] == [(COMPILE, 1), (RECOMPILE, 5)]
    assert suggest_region_fix(floats["Adam.step"])
    calls = floats["Sequential"].calls
    assert calls is not None
    assert (calls.calls, calls.warm, calls.uncompiled) == (24, 23, 0)
    # The optimizer and the model are separate regions, so one run shows the effect of both edits.
    edits = ("lr = 0.1\n", "lr = torch.tensor(0.1)\n"), ("use_autocast = False", "use_autocast = True")
    edited = regions(few, *edits, backend="aot_eager", override=("backend",))
    assert [mark.kind for mark in edited["Adam.step"].marks] == [COMPILE]
    autocast = edited["Sequential"].marks
    assert [mark.kind for mark in autocast] == [COMPILE, BACKWARD, RECOMPILE, BACKWARD_AGAIN]
    assert "autocast" in autocast[2].causes[0].failed_guard


def test_the_script_runs_unchanged(explorer: Explorer):
    script = explorer.explore("script.py")
    assert script.failure is None
    assert script.entry.kind == "script"
    assert [graph.graph for graph in script.graphs] == ["0/0", "0/1"]
    assert "step 2: loss" in "".join(piece.text for piece in script.output)
    steady = explorer.explore("script.py", ("batch = 24 if step == steps - 1 else 64", "batch = 64"))
    assert [graph.graph for graph in steady.graphs] == ["0/0"]


def test_every_sample_describes_its_results_and_edits_and_has_a_test():
    samples = sorted(SAMPLES.glob("*.py"))
    assert len(samples) >= 12
    tested = Path(__file__).read_text()
    for sample in samples:
        head = sample.read_text().split('"""')[1]
        assert "Look at:" in head, sample.name
        assert "Edit:" in head, sample.name
        assert f'"{sample.name}"' in tested, f"{sample.name} has no test"


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("*.py")))
def test_report_of_each_sample_follows_the_schema(explorer: Explorer, sample: str):
    config: dict[str, Any] = {"train": True} if sample == "language_model.py" else {}
    validate(explorer.explore(sample, **config))
