"""Which cures there are for a break: a table of torch's kinds of graph break."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tcexplore.fixes.fix import Change, Fix, Site, change
from tcexplore.fixes.kinds import assertions as checks
from tcexplore.fixes.kinds import branches, constants, data_writes, numpy_calls, scalars
from tcexplore.fixes.kinds import clock_calls as clocks
from tcexplore.fixes.kinds import context_managers as contexts
from tcexplore.fixes.kinds import dynamo_flags as settings
from tcexplore.fixes.kinds import explicit_breaks as own_breaks
from tcexplore.fixes.kinds import random_draws as draws
from tcexplore.fixes.kinds import side_effects as effects
from tcexplore.fixes.kinds import tensor_copies as copies
from tcexplore.fixes.kinds import tensor_lists as lists
from tcexplore.fixes.kinds import tensor_loops as loops
from tcexplore.fixes.syntax_source import SyntaxSource

Proposer = Callable[[Site], Iterator[Fix]]

_FOREIGN = (effects.propose, clocks.propose, draws.propose, constants.propose, numpy_calls.propose)
_BRANCH = (branches.propose, checks.propose, loops.propose)

CURES: dict[str, tuple[Proposer, ...]] = {
    "Failed to trace builtin operator": (effects.propose, constants.propose, contexts.propose),
    "logging.Logger method not supported for non-export cases": (effects.propose,),
    "Attempted to call function marked as skipped": _FOREIGN,
    "Attempted to inline function marked as skipped": _FOREIGN,
    "Unsupported method call": (constants.propose, contexts.propose),
    "Unsupported context manager": (contexts.propose, constants.propose),
    "unsupported contextlib.* API": (contexts.propose,),
    "using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops=False`": (settings.autograd,),
    "Unsupported Tensor.backward() call": (settings.autograd,),
    "Call to a time function": (clocks.propose, effects.propose),
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": (
        *_BRANCH, scalars.propose, numpy_calls.propose,
    ),
    "Tensor.tolist() with non-integer tensor": (lists.propose,),
    "Data dependent operator": (*_BRANCH, numpy_calls.propose, lists.propose),
    "Dynamic shape operator": (settings.shapes,),
    "Dynamic shape operator (no meta kernel)": (settings.shapes,),
    "Data-dependent branching": _BRANCH,
    "Data-dependent branching with non-constant __bool__": _BRANCH,
    "Data-dependent assertion failed (cannot compile partial graph)": (checks.propose,),
    "Call to `torch._dynamo.graph_break()`": (own_breaks.asked_for,),
    "Call to `torch._dynamo.skip_frame()`": (own_breaks.asked_for,),
    "Skip calling `torch.compiler.disable()`d function": (own_breaks.disabled,),
    "Skip inlining `torch.compiler.disable()`d function": (own_breaks.disabled,),
    "Attempted to copy.deepcopy a tensor": (copies.propose,),
    "copy.deepcopy()": (copies.propose,),
    "Failed to mutate tensor data attribute": (data_writes.propose,),
    "Failed to mutate tensor data attribute to different dtype": (data_writes.propose,),
    "attempted to trace numpy function unsupported by PyTorch": (numpy_calls.propose,),
    "numpy function that produces a const collection type encountered non-const arguments": (numpy_calls.propose,),
    "attempted to trace numpy.* function as a method": (numpy_calls.propose,),
}  # fmt: skip
"""What to try, the best first, by torch's `gb_type`. A kind that is not here has no cure that could be made safely."""

INSTALLED = ("site-packages", "dist-packages")


def installed(file: str) -> bool:
    """Whether a file belongs to a library, which is not the user's to change."""
    return any(part in file for part in INSTALLED)


def proposals(file: str, text: str, line: int, kind: str) -> tuple[Change, ...]:
    """Every change that could remove the break of this kind at a line of a file with this text, the best first.

    Empty where there is none, where the text is no Python, and in what is installed and not the user's own.
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
    made = (change(cure, file, text) for propose in CURES.get(kind, ()) for cure in propose(site))
    return tuple(found for found in made if found is not None)
