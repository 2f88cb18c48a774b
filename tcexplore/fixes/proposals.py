"""Fixes for each of torch's kinds of graph break."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tcexplore.fixes.fix import Change, Fix, Site, apply_fix
from tcexplore.fixes.kinds.constants import constant_fixes
from tcexplore.fixes.kinds.control_flow import assertion_fixes, branch_fixes, loop_fixes
from tcexplore.fixes.kinds.dynamo_flags import autograd_flag_fixes, shape_flag_fixes
from tcexplore.fixes.kinds.eager_only import clock_fixes, context_fixes, side_effect_fixes
from tcexplore.fixes.kinds.explicit_breaks import disable_fixes, explicit_break_fixes
from tcexplore.fixes.kinds.replaced_calls import copy_fixes, numpy_fixes, random_fixes
from tcexplore.fixes.kinds.tensor_values import data_write_fixes, list_fixes, scalar_fixes
from tcexplore.fixes.syntax_source import SyntaxSource

Proposer = Callable[[Site], Iterator[Fix]]

_SKIPPED_CALL = (side_effect_fixes, clock_fixes, random_fixes, constant_fixes, numpy_fixes)
_BRANCH = (branch_fixes, assertion_fixes, loop_fixes)

FIXES: dict[str, tuple[Proposer, ...]] = {
    "Failed to trace builtin operator": (side_effect_fixes, constant_fixes, context_fixes),
    "logging.Logger method not supported for non-export cases": (side_effect_fixes,),
    "Attempted to call function marked as skipped": _SKIPPED_CALL,
    "Attempted to inline function marked as skipped": _SKIPPED_CALL,
    "Unsupported method call": (constant_fixes, context_fixes),
    "Unsupported context manager": (context_fixes, constant_fixes),
    "unsupported contextlib.* API": (context_fixes,),
    "using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops=False`": (autograd_flag_fixes,),
    "Unsupported Tensor.backward() call": (autograd_flag_fixes,),
    "Call to a time function": (clock_fixes, side_effect_fixes),
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": (
        *_BRANCH, scalar_fixes, numpy_fixes,
    ),
    "Tensor.tolist() with non-integer tensor": (list_fixes,),
    "Data dependent operator": (*_BRANCH, numpy_fixes, list_fixes),
    "Dynamic shape operator": (shape_flag_fixes,),
    "Dynamic shape operator (no meta kernel)": (shape_flag_fixes,),
    "Data-dependent branching": _BRANCH,
    "Data-dependent branching with non-constant __bool__": _BRANCH,
    "Data-dependent assertion failed (cannot compile partial graph)": (assertion_fixes,),
    "Call to `torch._dynamo.graph_break()`": (explicit_break_fixes,),
    "Call to `torch._dynamo.skip_frame()`": (explicit_break_fixes,),
    "Skip calling `torch.compiler.disable()`d function": (disable_fixes,),
    "Skip inlining `torch.compiler.disable()`d function": (disable_fixes,),
    "Attempted to copy.deepcopy a tensor": (copy_fixes,),
    "copy.deepcopy()": (copy_fixes,),
    "Failed to mutate tensor data attribute": (data_write_fixes,),
    "Failed to mutate tensor data attribute to different dtype": (data_write_fixes,),
    "attempted to trace numpy function unsupported by PyTorch": (numpy_fixes,),
    "numpy function that produces a const collection type encountered non-const arguments": (numpy_fixes,),
    "attempted to trace numpy.* function as a method": (numpy_fixes,),
}  # fmt: skip
"""Fixes to try, the best first, by torch's `gb_type`. Other kinds have no safe fix."""

LIBRARY_FOLDERS = ("site-packages", "dist-packages")


def installed(file: str) -> bool:
    """Return whether a file belongs to an installed library, which the user does not change."""
    return any(folder in file for folder in LIBRARY_FOLDERS)


def proposals(file: str, text: str, line: int, kind: str) -> tuple[Change, ...]:
    """Return the changes that could remove a break of this kind at a line of a file, the best first.

    There are none for text that is not valid Python, and for installed libraries.
    """
    if installed(file):
        return ()
    try:
        source = SyntaxSource(text)
    except (SyntaxError, ValueError):
        return ()
    statement = source.statement(line)
    if statement is None:
        return ()
    site = Site(source, line, kind, statement, source.function(line))
    changes = (apply_fix(fix, file, text) for propose in FIXES.get(kind, ()) for fix in propose(site))
    return tuple(change for change in changes if change is not None)
