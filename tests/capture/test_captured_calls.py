"""Calls of a region that are kept: by reference, or by a copy of what the program writes to."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tcexplore.capture.captured_calls import MAX_CALLS, CallCapture, CapturedCall, NotCapturedError
from tcexplore.capture.python_state import argument_state, named_leaves
from tcexplore.events import RegionKind

pytestmark = pytest.mark.torch

LARGE = 128, 256
"""Size of a float32 tensor that is not copied because it is small."""


class Region:
    """A region whose calls a test makes itself."""

    kind: RegionKind

    def __init__(self, target: Any, kind: RegionKind = "module") -> None:
        self.number, self.name, self.kind = 0, "Net", kind
        self.calls = self.eager = 0
        self.target: Any = target
        self.original: Callable[..., Any] | None = target


def call(captures: CallCapture, region: Region, *args: Any, **kwargs: Any) -> Any:
    """Make a call as the script does."""
    captured = captures.begin(region, region.target, args, kwargs)
    result = region.target(*args, **kwargs)
    region.calls += 1
    if captured is not None:
        captures.end(captured, args, kwargs, result)
    return result


def kept(captures: CallCapture) -> list[CapturedCall]:
    return list(captures.calls.get(0, {}).values())


def large(limit: int = 1 << 30) -> CallCapture:
    return CallCapture(lambda _: limit)


def test_arguments_are_kept_without_a_copy() -> None:
    captures, x = large(), torch.randn(LARGE)
    with torch.no_grad():
        call(captures, Region(torch.nn.Linear(256, 256)), x)
    (captured,) = kept(captures)
    (argument,) = captured.entry().calls[0].args
    assert argument.data_ptr() == x.data_ptr()
    assert captured.entry().notes == ()


def test_what_the_program_writes_to_is_copied_when_the_call_comes_again() -> None:
    net = torch.nn.Linear(256, 256)
    captures, region, x = large(), Region(net), torch.randn(LARGE)
    call(captures, region, x)
    with torch.no_grad():
        net.weight.add_(1)
        x.add_(1)
    (captured,) = kept(captures)
    assert captured.stale
    with pytest.raises(NotCapturedError, match="wrote to an argument"):
        captured.entry()
    weight, before = net.weight.detach().clone(), x.clone()
    call(captures, region, x)
    with torch.no_grad():
        net.weight.add_(1)
        x.add_(1)
    (captured,) = kept(captures)
    assert captured.number == 2
    (argument,) = captured.entry().calls[0].args
    assert torch.equal(argument, before)
    assert torch.equal(net.weight, weight), "set back for the call"
    assert captured.count.calls == 2


def test_the_looks_at_what_was_written_become_rare_but_find_what_is_written_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    written: Callable[[CapturedCall], Iterator[str]] = vars(CapturedCall)["written"].fget

    def counted(captured: CapturedCall) -> Iterator[str]:
        looks.append(captured.number)
        return written(captured)

    monkeypatch.setattr(CapturedCall, "written", property(counted))
    net = torch.nn.Linear(256, 256)
    captures, region, x = large(), Region(net), torch.randn(LARGE)
    for number in range(400):
        if number >= 250:
            with torch.no_grad():
                net.weight.add_(1)
        call(captures, region, x)
    assert 8 < len(looks) < 60
    (captured,) = kept(captures)
    assert 250 < captured.number < 300
    assert not captured.stale


def test_parameters_beyond_the_limit_have_their_last_values() -> None:
    net = torch.nn.Linear(256, 256)
    captures, region = large(limit=200_000), Region(net)
    for _ in range(3):
        call(captures, region, torch.randn(LARGE))
        with torch.no_grad():
            net.weight.add_(1)
    (captured,) = kept(captures)
    assert captured.copied_bytes <= 200_000
    weight = net.weight.detach().clone()
    assert "end of the script" in captured.entry().notes[0]
    assert torch.equal(net.weight, weight)


def test_the_gradients_that_came_are_kept() -> None:
    net = torch.nn.Linear(256, 2)
    captures = large()
    output = call(captures, Region(net), torch.randn(LARGE))
    (3 * output).sum().backward()
    context = kept(captures)[0].entry().context
    assert context is not None
    assert torch.equal(context.gradients[0], torch.full((128, 2), 3.0))


def test_the_modes_of_the_call_are_kept() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(256, 2), torch.nn.Dropout())
    captures = large()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        call(captures, Region(net), torch.randn(LARGE))
    net.eval()
    context = kept(captures)[0].entry().context
    assert context is not None
    assert net.training
    with context.modes():
        assert torch.is_autocast_enabled("cpu")
        assert not torch.is_grad_enabled()


def test_random_numbers_of_the_call_come_again() -> None:
    net = torch.nn.Dropout()
    captures, x = large(), torch.ones(64, 64)
    output = call(captures, Region(net), x)
    torch.randn(3)
    context = kept(captures)[0].entry().context
    assert context is not None
    context.seed()
    assert torch.equal(net(x), output)


def test_inference_tensors_are_copied_since_they_count_no_changes() -> None:
    net = torch.nn.Linear(256, 256)
    captures = large()
    with torch.inference_mode():
        x = torch.randn(LARGE)
        before = x.clone()
        call(captures, Region(net), x)
        x.add_(1)
    (argument,) = kept(captures)[0].entry().calls[0].args
    assert torch.equal(argument, before)
    assert argument.is_inference(), "guards tell them apart"


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(8, 33)[:, :-1],
        torch.randn(1, 4).expand(3, 4),
        torch.zeros(0, 4),
        torch.randn(2, 16)[:, -1:],
        torch.randn(9, 4)[3:3],
    ],
)
def test_a_copy_has_the_layout_that_guards_check(x: torch.Tensor) -> None:
    captures = large()
    call(captures, Region(torch.nn.Identity()), x)
    (argument,) = kept(captures)[0].entry().calls[0].args
    assert argument.data_ptr() != x.data_ptr() or not x.numel()
    assert (argument.stride(), argument.shape) == (x.stride(), x.shape)
    assert argument.storage_offset() == x.storage_offset(), "a size that is dynamic once makes the offset dynamic too"
    assert torch.equal(argument, x)


def test_one_call_is_kept_of_each_of_the_first_signatures_and_the_largest() -> None:
    captures, region = large(), Region(torch.nn.Identity())
    sizes = [2, 3, 4, 5, 3, 9, 7]
    for size in sizes:
        call(captures, region, torch.ones(size))
    assert len(kept(captures)) == MAX_CALLS
    assert [captured.elements for captured in kept(captures)] == [2, 3, 4, 9]
    counts = captures.counts[0].values()
    assert {count.inputs: count.calls for count in counts} == {
        ("f32[2]",): 1, ("f32[3]",): 2, ("f32[4]",): 1, ("f32[5]",): 1, ("f32[9]",): 1, ("f32[7]",): 1,
    }  # fmt: skip


class Layer:
    """A layer of a cache, whose tensor a call replaces."""

    def __init__(self) -> None:
        self.keys = torch.zeros(LARGE)
        self.length = 0


class Cache:
    """An argument that no container of torch is."""

    def __init__(self) -> None:
        self.layers = [Layer()]


@pytest.mark.parametrize("inference", [False, True])
def test_an_object_that_holds_tensors_is_set_back(inference: bool) -> None:
    with torch.inference_mode(inference):
        captures, cache = large(), Cache()
        call(captures, Region(lambda _: None, "function"), cache)
        (layer,) = cache.layers
        keys = layer.keys
        layer.keys.add_(1)
        layer.keys, layer.length = torch.ones(3), 1
        cache.layers.append(Layer())
    (captured,) = kept(captures)
    captured.entry()
    assert captured.call.args[0] is cache
    assert cache.layers == [layer]
    assert (layer.keys is keys, layer.length) == (True, 0)
    assert not layer.keys.any()
    assert captured.copied_bytes == keys.nbytes


def test_an_object_beyond_the_limit_is_refused() -> None:
    captures = large(limit=1000)
    call(captures, Region(lambda _: None, "function"), Cache())
    assert not kept(captures)
    assert "captured calls may hold" in captures.reasons["Net"]


def test_inputs_beyond_the_limit_are_refused() -> None:
    captures = large(limit=1000)
    call(captures, Region(torch.nn.Identity()), torch.randn(LARGE))
    assert not kept(captures)
    assert "captured calls may hold" in captures.reasons["Net"]


def test_nothing_is_held_once_the_calls_are_released() -> None:
    captures, x = large(), torch.randn(LARGE)
    reference = weakref.ref(x.untyped_storage())
    tensor = weakref.ref(x)
    call(captures, Region(torch.nn.Identity()), x)
    alias = weakref.ref(kept(captures)[0].call.args[0])
    captures.clear()
    del x
    gc.collect()
    assert tensor() is None
    assert alias() is None
    assert reference() is None


def test_an_object_whose_attributes_raise_has_no_state() -> None:
    class Proxy:
        @property
        def __dict__(self) -> dict[str, object]:  # type: ignore[override]
            raise RuntimeError("not loaded")

    assert argument_state([torch.ones(2), 3, "text", Proxy()]) is None
    assert argument_state([Cache(), Cache()]) is not None


class Output(dict[str, torch.Tensor]):
    """A container of a library that torch knows without the names of its parts."""


def test_containers_without_names_have_those_of_their_mapping() -> None:
    pytree.register_pytree_node(
        Output, lambda out: (list(out.values()), list(out)), lambda parts, names: Output(zip(names, parts, strict=True))
    )
    one, two = torch.ones(1), torch.ones(2)
    assert [path for path, _ in named_leaves((one, {"a": Output(sample=two)}))] == ["[0]", "[1]['a']['sample']"]
    assert [path for path, _ in named_leaves({"a": [one, two]})] == ["['a'][0]", "['a'][1]"]
    assert [path for path, _ in named_leaves(one)] == [""]
