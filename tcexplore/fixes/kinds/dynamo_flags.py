"""Settings of Dynamo that let it trace what it would break at: a line below the file's imports."""

from __future__ import annotations

from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.text_edit import Edit

SCALARS = "capture_scalar_outputs"
SHAPES = "capture_dynamic_output_shape_ops"
AUTOGRAD = "trace_autograd_ops"

_SAID = {
    SCALARS: "Dynamo keeps the number in the graph as a symbol, instead of asking for its value.",
    SHAPES: "Dynamo keeps the size of the result in the graph as a symbol, instead of asking for it.",
    AUTOGRAD: "Dynamo traces the gradient that is computed inside the function into the graph.",
}
_FOR_ALL = "It holds for everything that this process compiles."


def scalar_flag_fixes(site: Site) -> Iterator[Fix]:
    """Numbers out of tensors become symbols."""
    yield from _setting(site, SCALARS)


def shape_flag_fixes(site: Site) -> Iterator[Fix]:
    """Sizes that depend on values become symbols."""
    yield from _setting(site, SHAPES)


def autograd_flag_fixes(site: Site) -> Iterator[Fix]:
    """`torch.autograd.grad` and `.backward()` are traced."""
    yield from _setting(site, AUTOGRAD)


def _setting(site: Site, name: str) -> Iterator[Fix]:
    edit = dynamo_line(site, f"config.{name} = True", name)
    if edit is not None:
        yield Fix(f"set {name}", _SAID[name], (edit,), (_FOR_ALL,))


def dynamo_line(site: Site, line: str, unless: str) -> Edit | None:
    """`torch._dynamo.<line>` below the imports; None where the file says something of `unless` already."""
    source = site.source
    if unless in source.text:
        return None
    if source.torch is None:
        return source.below_imports("import torch._dynamo", "", f"torch._dynamo.{line}")
    return source.below_imports(f"{source.torch}._dynamo.{line}")
