"""Fixes for each of torch's kinds of graph break, and advice where no edit of the line is safe."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from tcexplore.fixes.constants import constant_fixes
from tcexplore.fixes.control_flow import assertion_fixes, branch_fixes, loop_fixes, tested_number_fixes
from tcexplore.fixes.eager_only import (
    autograd_flag_fixes,
    clock_fixes,
    context_fixes,
    disable_fixes,
    explicit_break_fixes,
    shape_flag_fixes,
    side_effect_fixes,
)
from tcexplore.fixes.fix import Change, Fix, Site, apply_fix
from tcexplore.fixes.replaced_calls import (
    copy_fixes,
    data_write_fixes,
    list_fixes,
    numpy_fixes,
    random_fixes,
    scalar_fixes,
)
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
        *_BRANCH, tested_number_fixes, scalar_fixes, numpy_fixes,
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


# ---- advice


LIBRARY = "This line is in an installed library; only your own files are edited."
NO_FIX = "No known change of these lines removes the break and keeps the behavior."

_RANDOM = (
    "Draw the number before the compiled call and pass it as a tensor, so that other values use the same graph; "
    "or draw it with torch.rand(()) inside. No edit is made: the former changes how the function is called, the "
    "latter which numbers are drawn."
)
_SEED = (
    "Set the seed before the compiled call. No edit is made: outside the function, the seed would no longer be "
    "set in every call."
)
_OUTSIDE = (
    "Do it before or after the compiled call. No edit is made: its effect outside the program must happen in "
    "every call, and a graph cannot contain it."
)
_TIME_OR_ID = "Get it outside the compiled call and pass it in. No edit is made: a graph would keep one value forever."
_NUMPY = (
    "Call torch's own function on the tensor if it has one (torch.quantile for numpy.percentile). No edit is "
    "made: no equivalent of this function, or of these arguments, is known."
)
_FILE = (
    "Read it once, before the compiled call, and pass the content in. No edit is made: the content may depend on "
    "the call, or the file stays open."
)

CALLED = {
    "random.seed": _SEED, "numpy.random.seed": _SEED, "torch.manual_seed": _SEED, "random.": _RANDOM,
    "numpy.random.": _RANDOM, "subprocess.": _OUTSIDE, "os.": _OUTSIDE, "shutil.": _OUTSIDE, "requests.": _OUTSIDE,
    "urllib.": _OUTSIDE, "socket.": _OUTSIDE, "sqlite3.": _OUTSIDE, "torch.save": _OUTSIDE, "threading.": _OUTSIDE,
    "datetime.": _TIME_OR_ID, "uuid.": _TIME_OR_ID, "time.": _TIME_OR_ID, "open": _FILE, "json.load": _FILE,
    "pickle.": _FILE, "numpy.load": _FILE, "torch.load": _FILE, "pathlib.": _FILE,
    "numpy.": _NUMPY,
}  # fmt: skip
"""Advice by prefix of the called name; the longest prefix wins."""

_CONTEXT = (
    "Enter it outside: put the `with` around the call of the compiled function. No edit is made: its effect is "
    "unknown, and compiled calls might need it, like a lock."
)
_BRANCHING = (
    "Write both branches as values for torch.where, or as functions for torch.cond. No edit is made: this branch "
    "does more than assign values, or its condition is not an expression of tensors."
)
_LOOP = (
    "torch.while_loop takes a loop whose body only assigns new tensors, of the same shape and dtype each time. No "
    "edit is made: this loop does more, or has another condition."
)
_NUMBER = (
    "Keep the value a tensor, or read it outside the compiled call: here it determines a list, a key, a shape or "
    "a loop. If it is a size, torch._check can bound it. No edit is made: only you know which bounds hold."
)
_FOREIGN = (
    "Call it outside the compiled function; or wrap it with torch.library.custom_op and a fake implementation, so "
    "that the graph contains it. No edit is made: its effect on its arguments is unknown."
)

KINDS = {
    "Unsupported context manager": _CONTEXT,
    "unsupported contextlib.* API": _CONTEXT,
    "Data-dependent branching": _BRANCHING,
    "Data-dependent branching with non-constant __bool__": _BRANCHING,
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": _NUMBER,
    "Data dependent operator": _NUMBER,
    "Attempted to call function marked as skipped": _FOREIGN,
    "Attempted to inline function marked as skipped": _FOREIGN,
    "Unsupported Tensor.backward() call": (
        "Compute the gradient with torch.autograd.grad and set torch._dynamo.config.trace_autograd_ops if this "
        "torch has it; or call backward() outside. No edit is made: the gradients would be stored elsewhere."
    ),
    "Observed exception": (
        "The exception is raised during tracing and leaves the function: check its cause before the compiled "
        "call. No edit is made: whether it is raised depends on the call."
    ),
}
"""Advice by torch's `gb_type`."""


def advice(file: str, text: str, line: int, kind: str) -> str:
    """Return a sentence of advice on a break of this kind at a line of a file."""
    if installed(file):
        return LIBRARY
    try:
        source = SyntaxSource(text)
    except (SyntaxError, ValueError):
        return NO_FIX
    statement = source.statement(line)
    if isinstance(statement, ast.While):
        return _LOOP
    context = isinstance(statement, ast.With) and KINDS.get(kind) is _CONTEXT
    on_calls = None if statement is None or context else _advice_on_calls(source, statement)
    return on_calls or KINDS.get(kind, NO_FIX)


def _advice_on_calls(source: SyntaxSource, statement: ast.stmt) -> str | None:
    """Return advice on a call in the statement, without the blocks inside it."""
    below = {id(n) for block in ("body", "orelse") for s in getattr(statement, block, ()) for n in ast.walk(s)}
    calls = (n for n in ast.walk(statement) if isinstance(n, ast.Call) and id(n) not in below)
    names = [name for call in calls if (name := source.dotted(call.func))]
    known = sorted(CALLED, key=len, reverse=True)
    return next((CALLED[start] for name in names for start in known if name.startswith(start)), None)
