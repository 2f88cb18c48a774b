"""Flags of Dynamo that let it trace instead of breaking, set below the file's imports."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.text_edit import Edit

SCALARS = "capture_scalar_outputs"
SHAPES = "capture_dynamic_output_shape_ops"
AUTOGRAD = "trace_autograd_ops"

_DESCRIPTIONS = {
    SCALARS: "Dynamo keeps the number in the graph as a symbol, instead of reading its value.",
    SHAPES: "Dynamo keeps the size of the result in the graph as a symbol, instead of reading it.",
    AUTOGRAD: "Dynamo traces the gradient computation inside the function into the graph.",
}
_GLOBAL = "The flag applies to everything that this process compiles."


def scalar_flag_fixes(site: Site) -> Iterator[Fix]:
    """Turn numbers read from tensors into symbols."""
    yield from _flag(site, SCALARS)


def shape_flag_fixes(site: Site) -> Iterator[Fix]:
    """Turn sizes that depend on values into symbols."""
    yield from _flag(site, SHAPES)


def autograd_flag_fixes(site: Site) -> Iterator[Fix]:
    """Trace `torch.autograd.grad` and `.backward()`."""
    yield from _flag(site, AUTOGRAD)


def _flag(site: Site, name: str) -> Iterator[Fix]:
    edit = dynamo_line(site, f"config.{name} = True", name)
    if edit is not None:
        yield Fix(f"set {name}", _DESCRIPTIONS[name], (edit,), (_GLOBAL,))


def dynamo_line(site: Site, line: str, unless: str) -> Edit | None:
    """Return an edit that adds `torch._dynamo.<line>` below the imports; None if the file mentions `unless`."""
    source = site.source
    if unless in source.text:
        return None
    if source.torch is None:
        return source.below_imports("import torch._dynamo", "", f"torch._dynamo.{line}")
    return source.below_imports(f"{source.torch}._dynamo.{line}")
