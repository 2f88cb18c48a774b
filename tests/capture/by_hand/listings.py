"""Hand-written listings of a model's generated code: each statement with the model's lines that it comes from.

A listing is a text file named `MODEL.LANGUAGE`. A line without a bar names a kernel and its phase. The others are the
kernel's statements in order, each after the labels of its lines:

    cpp_fused_add_mul_0 forward
    a b  | auto tmp0 = Vectorized<float>::loadu(in_ptr0 + (x0), (8));

A statement may belong to several lines: any subset of them is right. These statements do:
- a subexpression that several lines share, and the load of a value that several lines read;
- the sum of a value's gradients: the lines that use the value, and the one that computes it;
- part of an op that replaces several (`prepare_softmax_online` for a maximum, a difference, an exponential and a sum):
  the lines of all of them;
- a store: the line that computes the value, and the one that requires the store (a part of a `cat`, a copy in the
  layout of an extern kernel, an in-place update);
- a masked load, or one moved by a slice or a flip: the line of the load, and that of the slice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch._dynamo
import torch._inductor.config

from tcexplore.events import Kernel
from tests.capture.by_hand import models
from tests.capture.compiling import no_gpu, watching
from tests.capture.statements import statements

FOLDER = Path(__file__).parent
TORCH = "2.13"
"""The torch version that generated the listed code; another one generates other statements."""

_SETTINGS: dict[str, Any] = {"fx_graph_cache": False, "cpp.simdlen": 256, "cpp.threads": 2}
"""Vectors of 256 bits and two threads on any machine."""

_LABEL = re.compile(r"  # (\w+)$")
_NOISE = re.compile(r"\bstatic_cast<int64_t>|\bat::vec::")


class Statement(NamedTuple):
    """One statement and the labels of its lines."""

    text: str
    lines: frozenset[str]


class Listing(NamedTuple):
    """A kernel's name and phase, and its statements."""

    kernel: str
    statements: list[Statement]


@cache
def _labels() -> dict[int, str]:
    lines = Path(models.__file__).read_text().splitlines()
    return {n: label.group(1) for n, line in enumerate(lines, 1) if (label := _LABEL.search(line))}


def labels() -> set[str]:
    """Return every label in the models."""
    return set(_labels().values())


def names() -> list[str]:
    """Return the names of all listings."""
    return sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".cpp", ".triton"))


def has_vectors() -> bool:
    """Return whether this machine has the vectors that the C++ listings require."""
    from torch._inductor.cpu_vec_isa import valid_vec_isa_list

    return any(isa.bit_width() == _SETTINGS["cpp.simdlen"] for isa in valid_vec_isa_list())


def written(name: str) -> list[Listing]:
    """Return the hand-written listings of a file."""
    listings: list[Listing] = []
    for line in (FOLDER / name).read_text().splitlines():
        labels, bar, text = line.partition("| ")
        if bar:
            listings[-1].statements.append(Statement(text, frozenset(labels.split())))
        elif line.strip():
            listings.append(Listing(line, []))
    return listings


def captured(name: str) -> list[Listing]:
    """Return the listings that tcexplore captures for the code that this torch generates."""
    model, _, language = name.partition(".")
    kernels = _generated(models.MODELS[model], gpu=language == "triton")
    listed = {listing.kernel for listing in written(name)}
    return [listing for listing in map(_listing, kernels) if not listed or listing.kernel in listed]


def _generated(model: models.Model, *, gpu: bool) -> Iterator[Kernel]:
    torch._dynamo.reset()
    backend = no_gpu.backend if gpu else no_gpu.cpu_backend
    with no_gpu.stop_after_codegen(), watching(models.__file__) as events, torch._inductor.config.patch(_SETTINGS):
        with torch.set_grad_enabled(model.train):
            torch.compile(model.make(), backend=backend)(*model.inputs())
        yield from (event for event in events if isinstance(event, Kernel) and event.language != "extern")


def _listing(kernel: Kernel) -> Listing:
    places = {line.n: line.source for line in kernel.lines}
    lines = kernel.source.split("\n")
    listed = [
        Statement(
            _NOISE.sub("", lines[n - 1].strip()),
            frozenset(_labels().get(place.line, str(place.line)) for place in places.get(n, ())),
        )
        for n in statements(kernel)
    ]
    return Listing(f"{kernel.name} {kernel.phase}", listed)


class Judgement(NamedTuple):
    """Number of statements with right lines only, and reports of those with a wrong line or none."""

    right: int
    wrong: list[str]
    missing: list[str]


def judge(name: str) -> Judgement:
    """Compare captured with hand-written lines; raise `OtherCodeError` if the statements differ."""
    expected, actual = written(name), captured(name)
    if [_texts(listing) for listing in expected] != [_texts(listing) for listing in actual]:
        raise OtherCodeError(f"torch {torch.__version__} generates other code for {name} than the listing has")
    right, wrong, missing = 0, [], []
    for listing, other in zip(expected, actual, strict=True):
        for truth, linked in zip(listing.statements, other.statements, strict=True):
            report = (
                f"{name} {listing.kernel}: {truth.text}: expected {sorted(truth.lines)}, got {sorted(linked.lines)}"
            )
            if not linked.lines and truth.lines:
                missing.append(report)
            elif not linked.lines <= truth.lines:
                wrong.append(report)
            else:
                right += 1
    return Judgement(right, wrong, missing)


def _texts(listing: Listing) -> tuple[str, list[str]]:
    return listing.kernel, [statement.text for statement in listing.statements]


class OtherCodeError(Exception):
    """The generated code differs from the listed code."""
