"""Advice for breaks that no edit of their lines removes safely."""

from __future__ import annotations

import ast

from tcexplore.fixes.proposals import installed
from tcexplore.fixes.syntax_source import SyntaxSource

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
_BRANCH = (
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
    "Data-dependent branching": _BRANCH,
    "Data-dependent branching with non-constant __bool__": _BRANCH,
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
