"""The nearest earlier key of a cache miss, the parts that differ, and their lines."""

from __future__ import annotations

from collections.abc import Mapping

from tcexplore import events as ev
from tcexplore.session import Snapshot
from tcexplore.session.cache_misses import cache_misses
from tcexplore.torch_text.cache_key_text import CacheKeyReader

SOURCE = """\
import torch
torch._inductor.config.max_fusion_size = 64
x = torch.randn(4, 16)
def f(x):
    return x.sin() * 2
"""
PARTS = {
    "gm": ("graph", "g1"),
    "example_inputs[0]": ("TensorMetadata(dtype=torch.float32, shape=torch.Size([4, 16]), stride=(16, 1))", "i1"),
    "inductor_config[max_fusion_size]": ("64", "s1"),
    "torch_version": ("2.13", "t1"),
}


def run(*lookups: Mapping[str, tuple[str, str]], source: str = SOURCE, label: int = 1) -> Snapshot:
    """A run with one lookup that misses for each key."""
    snapshot = Snapshot(run=label, file="model.py", source=source, config=ev.Config())
    keys = CacheKeyReader()
    for number, parts in enumerate(lookups):
        lines = [f"[{digest}] {name}: {value}" for name, (value, digest) in parts.items()]
        key = keys.read(f"0/{number}", "fx_graph", {"key": f"key {number}", "components": lines})
        assert key is not None
        nodes = (
            ev.FxNode(name="x", op="placeholder", target="L_x_", dtype="f32", shape=("4", "16")),
            ev.FxNode(
                name="sin", op="call_method", target="sin", args="x", inputs=("x",),
                location=ev.Location("model.py", 5, "f"),
            ),
        )  # fmt: skip
        graph = ev.GraphCaptured(graph=f"0/{number}", ops=1, nodes=nodes, code="")
        lookup = ev.CacheLookup(graph=f"0/{number}", cache="fx_graph", outcome="miss")
        snapshot = snapshot.apply_all(tagged(event, label) for event in (graph, lookup, key))
    return snapshot


def tagged(event: ev.Event, number: int) -> ev.Event:
    object.__setattr__(event, "run", number)
    return event


def test_a_key_has_only_the_parts_that_the_one_before_it_lacks():
    first, second = run(PARTS, {**PARTS, "torch_version": ("2.14", "t2")}).cache_keys
    assert len(first.parts) == len(PARTS)
    assert second.parts == (ev.KeyPart("torch_version", "2.14", "t2"),)
    (third,) = run({"gm": ("graph", "g1")}).cache_keys
    assert third.removed == ()


def test_the_first_compile_has_nothing_to_hit():
    assert cache_misses(run(PARTS)) == ()


def test_the_nearest_key_is_the_one_with_the_most_equal_parts():
    other = {**PARTS, "example_inputs[0]": ("s64", "i2"), "torch_version": ("2.14", "t2")}
    changed = {**PARTS, "inductor_config[max_fusion_size]": ("32", "s2")}
    miss = cache_misses(run(PARTS, other, changed))[-1]
    assert (miss.graph, miss.nearest_graph, miss.nearest_key) == ("0/2", "0/0", "key 0")
    (difference,) = miss.differences
    assert (difference.part, difference.before, difference.after) == ("inductor_config[max_fusion_size]", "64", "32")


def test_a_setting_has_the_line_that_sets_the_new_value():
    source = SOURCE + "torch._inductor.config.max_fusion_size = 32\n"
    miss = cache_misses(run(PARTS, {**PARTS, "inductor_config[max_fusion_size]": ("32", "s2")}, source=source))[0]
    assert miss.differences[0].location == ev.Location("model.py", 6, "")


def test_what_no_line_sets_has_none():
    miss = cache_misses(run(PARTS, {**PARTS, "torch_version": ("2.14", "t2")}))[0]
    assert [(one.part, one.location) for one in miss.differences] == [("torch_version", None)]


def test_the_only_changed_line_of_two_runs_is_behind_an_input():
    after = {**PARTS, "example_inputs[0]": (PARTS["example_inputs[0]"][0].replace("4, 16", "8, 16"), "i2")}
    before, now = run(PARTS), run(after, source=SOURCE.replace("randn(4", "randn(8"), label=2)
    (miss,) = cache_misses(now, before)
    assert miss.nearest_run == "run 1"
    (difference,) = miss.differences
    assert (difference.before, difference.after) == ("float32[4, 16], stride (16, 1)", "float32[8, 16], stride (16, 1)")
    assert difference.location == ev.Location("model.py", 3, "")


def test_an_input_without_a_changed_line_has_the_line_that_uses_it():
    after = {**PARTS, "example_inputs[0]": ("s64", "i2")}
    (miss,) = cache_misses(run(after, label=2), run(PARTS))
    assert miss.differences[0].location == ev.Location("model.py", 5, "f")


def test_equal_texts_are_told_apart_by_their_hash():
    (miss,) = cache_misses(run({**PARTS, "gm": ("graph", "g2")}, label=2), run(PARTS))
    assert (miss.differences[0].before, miss.differences[0].after) == ("graph g1", "graph g2")
