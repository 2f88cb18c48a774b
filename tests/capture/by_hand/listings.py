"""The statements of a model's generated code, each with the lines of the model that it is from, written down by hand.

A listing is a text file named `MODEL.LANGUAGE`. In it, a line without a bar names a kernel and its phase; the others
are the kernel's statements in their order, after the labels of the lines that they belong to:

    cpp_fused_add_mul_0 forward
    a b  | auto tmp0 = Vectorized<float>::loadu(in_ptr0 + (x0), (8));

A statement may belong to several lines: then it is right to name any of them, and wrong to name another. These do:
- what lines with the same subexpression share, and the load of a value that several lines read;
- the sum of the gradients of a value: to the lines that use the value, and to the one that made it;
- what is part of one op that torch put in the place of several (`prepare_softmax_online` for a maximum, a difference,
  an exponential and a sum): to the lines of all these;
- a store: to the line that made the value, and to the one for which it is stored (a part of a `cat`, a copy in the
  layout that an extern kernel asks for, an update in place);
- a load that a slice or a flip has moved, a masked one: to the line of the load, and to that of the slice.
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
"""Whose code the listings hold; another torch writes other statements."""

_SETTINGS: dict[str, Any] = {"fx_graph_cache": False, "cpp.simdlen": 256, "cpp.threads": 2}
"""Vectors of 256 bits and two threads, whatever machine this is."""

_LABEL = re.compile(r"  # (\w+)$")
_NOISE = re.compile(r"\bstatic_cast<int64_t>|\bat::vec::")


class Statement(NamedTuple):
    """One statement, and the labels of the lines that it belongs to, or is said to belong to."""

    text: str
    lines: frozenset[str]


class Listing(NamedTuple):
    """A kernel's name and phase, and its statements."""

    kernel: str
    statements: list[Statement]


@cache
def _labels() -> dict[int, str]:
    lines = Path(models.__file__).read_text().splitlines()
    return {n: found.group(1) for n, line in enumerate(lines, 1) if (found := _LABEL.search(line))}


def labels() -> set[str]:
    """Every label in the models."""
    return set(_labels().values())


def names() -> list[str]:
    """Every listing there is."""
    return sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".cpp", ".triton"))


def has_vectors() -> bool:
    """Whether this machine has vectors of the size that the C++ listings are for."""
    from torch._inductor.cpu_vec_isa import valid_vec_isa_list

    return any(isa.bit_width() == _SETTINGS["cpp.simdlen"] for isa in valid_vec_isa_list())


def written(name: str) -> list[Listing]:
    """What was written down by hand."""
    found: list[Listing] = []
    for line in (FOLDER / name).read_text().splitlines():
        labels, bar, text = line.partition("| ")
        if bar:
            found[-1].statements.append(Statement(text, frozenset(labels.split())))
        elif line.strip():
            found.append(Listing(line, []))
    return found


def captured(name: str) -> list[Listing]:
    """What tcexplore says of the code that this torch generates."""
    model, _, language = name.partition(".")
    found = _generated(models.MODELS[model], gpu=language == "triton")
    wanted = {listing.kernel for listing in written(name)}
    return [listing for listing in map(_listing, found) if not wanted or listing.kernel in wanted]


def _generated(model: models.Model, *, gpu: bool) -> Iterator[Kernel]:
    torch._dynamo.reset()
    backend = no_gpu.backend if gpu else no_gpu.cpu_backend
    with no_gpu.stopping(), watching(models.__file__) as events, torch._inductor.config.patch(_SETTINGS):
        with torch.set_grad_enabled(model.train):
            torch.compile(model.make(), backend=backend)(*model.inputs())
        yield from (event for event in events if isinstance(event, Kernel) and event.language != "extern")


def _listing(kernel: Kernel) -> Listing:
    said = {line.n: line.source for line in kernel.lines}
    lines = kernel.source.split("\n")
    found = [
        Statement(
            _NOISE.sub("", lines[n - 1].strip()),
            frozenset(_labels().get(place.line, str(place.line)) for place in said.get(n, ())),
        )
        for n in statements(kernel)
    ]
    return Listing(f"{kernel.name} {kernel.phase}", found)


class Judgement(NamedTuple):
    """Statements whose named lines are all right, some of them wrong, or not named at all."""

    right: int
    wrong: list[str]
    missing: list[str]


def judge(name: str) -> Judgement:
    """Compare what is said with what was written down. Raises `OtherCodeError` where the statements differ."""
    expected, found = written(name), captured(name)
    if [_texts(listing) for listing in expected] != [_texts(listing) for listing in found]:
        raise OtherCodeError(f"torch {torch.__version__} generates other code for {name} than was read")
    right, wrong, missing = 0, [], []
    for ours, theirs in zip(expected, found, strict=True):
        for truth, said in zip(ours.statements, theirs.statements, strict=True):
            told = f"{name} {ours.kernel}: {truth.text}: is {sorted(truth.lines)}, said {sorted(said.lines)}"
            if not said.lines and truth.lines:
                missing.append(told)
            elif not said.lines <= truth.lines:
                wrong.append(told)
            else:
                right += 1
    return Judgement(right, wrong, missing)


def _texts(listing: Listing) -> tuple[str, list[str]]:
    return listing.kernel, [statement.text for statement in listing.statements]


class OtherCodeError(Exception):
    """The generated code is not the code that was read."""
