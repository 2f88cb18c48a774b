"""Every sample in the real worker: what its comment says is there to see, and what its edit changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tcexplore.documents.timing.timeline_view import suggest_region_fix
from tcexplore.session import Snapshot
from tcexplore.session.timeline import BACKWARD, BACKWARD_AGAIN, COMPILE, RECOMPILE, RegionTimeline, timeline
from tests.report.test_schema import validate
from tests.samples.exploring import SAMPLES, Explorer, extern, fuses, generated, lines

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def explorer() -> Iterator[Explorer]:
    with Explorer() as explorer:
        yield explorer


def whole(snapshot: Snapshot) -> bool:
    """Compiled without an error into one graph."""
    assert snapshot.failure is None, snapshot.failure
    return (len(snapshot.graphs), len(snapshot.breaks)) == (1, 0)


def test_mlp_ends_with_one_break_that_one_edit_removes(explorer: Explorer):
    before = explorer.explore("mlp.py")
    assert [break_.location.line for break_ in before.breaks] == lines(before, ".max().item()")
    assert len(before.graphs) == 2
    after = explorer.explore("mlp.py", (".max().item()", ".max()"))
    assert whole(after)
    assert generated(after, fuses("abs", "tanh")), "what followed the break is fused"
    assert not generated(before, fuses("abs", "tanh"))


def test_each_marked_line_of_graph_breaks_breaks_and_the_fixed_form_does_not(explorer: Explorer):
    broken = explorer.explore("graph_breaks.py")
    assert sorted(break_.location.line for break_ in broken.breaks) == lines(broken, "# BREAK")
    assert len(broken.graphs) > 4
    assert whole(explorer.explore("graph_breaks.py", ("model = Broken()", "model = Fixed()")))
    assert whole(explorer.explore("graph_breaks.py", entry="Fixed", backend="eager"))


@pytest.mark.parametrize("function", ["printed", "scaled", "chosen", "disabled"])
def test_graph_breaks_can_be_repaired_one_at_a_time(explorer: Explorer, function: str):
    chain = "disabled(chosen(scaled(printed(x))))"
    repaired = explorer.explore(
        "graph_breaks.py", (chain, chain.replace(f"{function}(", f"{function}_fixed(")), backend="eager"
    )
    assert len(repaired.breaks) == 3


def test_nothing_in_not_breaks_breaks(explorer: Explorer):
    assert whole(explorer.explore("not_breaks.py"))


def test_fusion_is_one_kernel_until_a_product_parts_it(explorer: Explorer):
    fused = explorer.explore("fusion.py")
    assert whole(fused)
    (kernel,) = fused.code.kernels
    assert fuses("layer_norm", "gelu", "mul", "add")(kernel)
    statements = ("h = self.norm(x)", "h = F.gelu(h)", "h = h * self.scale", "return h + self.shift")
    assert {place.line for place in kernel.source_lines} >= {lines(fused, text)[-1] for text in statements}
    parted = explorer.explore(
        "fusion.py", ("        h = F.gelu(h)", "        h = h @ self.weight\n        h = F.gelu(h)")
    )
    assert (len(generated(parted)), len(extern(parted))) == (2, 1)


def test_entropy_is_one_kernel_also_with_two_results(explorer: Explorer):
    one = explorer.explore("entropy.py")
    assert whole(one)
    (kernel,) = one.code.kernels
    assert fuses("softmax", "log", "mul", "sum")(kernel)
    (both,) = explorer.explore("entropy.py", (".sum(dim=-1)", ".sum(dim=-1), p")).code.kernels
    assert both.bytes_written > kernel.bytes_written


def test_attention_keeps_its_scores_between_two_products(explorer: Explorer):
    written_out = explorer.explore("attention.py")
    assert whole(written_out)
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
    dynamic = explorer.explore("branching.py", sizes)
    assert len(dynamic.graphs) == 2
    assert any("s" in "".join(node.shape or ()) for node in dynamic.graphs[1].nodes)


def test_conv_bn_fuses_normalization_and_relu(explorer: Explorer):
    inference = explorer.explore("conv_bn.py")
    assert whole(inference)
    assert len(extern(inference)) == 2
    assert len(generated(inference, fuses("batch_norm", "relu"))) == 2
    training = explorer.explore("conv_bn.py", ("(16, 32)).eval()", "(16, 32))"))
    assert whole(training)
    assert sum(len(k.source) for k in generated(training)) > sum(len(k.source) for k in generated(inference))


def test_a_transformer_block_fuses_what_stands_between_the_products(explorer: Explorer):
    block = explorer.explore("transformer_block.py")
    assert whole(block)
    assert len(extern(block)) == 5
    assert generated(block, fuses("add", "layer_norm"))
    post = explorer.explore(
        "transformer_block.py",
        ("x = x + self.attention(self.norm1(x))", "x = self.norm1(x + self.attention(x))"),
    )
    assert len(generated(post)) == len(generated(block)) - 1
    twice = {line for kernel in generated(post, fuses("layer_norm")) for line in kernel.source_lines}
    assert len(twice) >= 2


def test_the_language_model_trains(explorer: Explorer):
    trained = explorer.explore("language_model.py", train=True)
    assert whole(trained)
    assert {kernel.phase for kernel in generated(trained)} == {"forward", "backward"}
    assert any(fuses("layer_norm_backward")(k) for k in generated(trained) if k.phase == "forward")


def test_the_language_model_ties_its_weights(explorer: Explorer):
    tied = explorer.explore("language_model.py", ("tied = False", "tied = True"), train=True)
    assert whole(tied)


def test_a_function_compiles_as_a_module_does(explorer: Explorer):
    plain = explorer.explore("function.py")
    assert whole(plain)
    assert plain.entry.kind == "function"
    assert len(plain.code.kernels) == 1
    low = explorer.explore("function.py", ("inputs = (x, gate", "inputs = (x.bfloat16(), gate"))
    assert whole(low)
    assert "BFloat16" in low.code.kernels[0].source or "bf16" in low.code.kernels[0].source


def test_a_tensor_for_the_learning_rate_spares_the_optimizers_step_a_recompile(explorer: Explorer):
    def lanes(*edits: tuple[str, str]) -> dict[str, RegionTimeline]:
        return {lane.region.name: lane for lane in timeline(explorer.explore("training_loop.py", *edits)).regions}

    few = ("steps = 12", "steps = 6")
    floats = lanes(few)
    assert [mark.kind for mark in floats["Sequential"].marks] == [COMPILE, BACKWARD]
    assert [(mark.kind, mark.call) for mark in floats["Adam.step"].marks] == [(COMPILE, 1), (RECOMPILE, 5)]
    assert suggest_region_fix(floats["Adam.step"])
    seen = floats["Sequential"].calls
    assert seen is not None
    assert (seen.calls, seen.warm, seen.uncompiled) == (12, 11, 0)
    tensors = lanes(few, ("lr = 0.1\n", "lr = torch.tensor(0.1)\n"))
    assert [mark.kind for mark in tensors["Adam.step"].marks] == [COMPILE]
    autocast = lanes(few, ("use_autocast = False", "use_autocast = True"))["Sequential"].marks
    assert [mark.kind for mark in autocast] == [COMPILE, BACKWARD, RECOMPILE, BACKWARD_AGAIN]
    assert "autocast" in autocast[2].causes[0].failed_guard


def test_the_script_is_run_as_it_is(explorer: Explorer):
    script = explorer.explore("script.py")
    assert script.failure is None
    assert script.entry.kind == "script"
    assert [graph.graph for graph in script.graphs] == ["0/0", "0/1"]
    assert "step 2: loss" in "".join(piece.text for piece in script.output)
    steady = explorer.explore("script.py", ("batch = 24 if step == steps - 1 else 64", "batch = 64"))
    assert [graph.graph for graph in steady.graphs] == ["0/0"]


def test_every_sample_says_what_to_look_at_and_what_to_edit():
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
    validate(explorer.explore(sample))
