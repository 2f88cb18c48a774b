"""What to do about a break that no edit of its lines removes safely, and why none is offered."""

from __future__ import annotations

import ast

from tcexplore.fixes.proposals import installed
from tcexplore.fixes.syntax_source import SyntaxSource

LIBRARY = "This line is in an installed library, which is not yours to change."
NO_FIX = "No known change of these lines removes the break and keeps the behavior."

_DRAW = (
    "Draw before the compiled call and hand the number in, as a tensor, so that another value needs no other graph; or "
    "draw with torch.rand(()) inside. No edit is made: the one changes how the function is called, the other which "
    "numbers are drawn."
)
_SEED = (
    "Seed before the compiled call. No edit is made: moved out of the function, it would no longer be done in every "
    "call."
)
_WORLD = (
    "Do it before or behind the compiled call. No edit is made: what it does outside the program has to happen in "
    "every call, and a graph has no place for it."
)
_MOMENT = (
    "Ask for it outside the compiled call, and hand it in where it is needed. No edit is made: a graph would keep one."
)
_NUMPY = (
    "Call torch's own function on the tensor, where there is one (torch.quantile for numpy.percentile). No edit is "
    "made: for this function, or these arguments, none is known here that gives the same."
)
_FILE = (
    "Read it once, before the compiled call, and hand in what was read. No edit is made: what is read may depend on "
    "the call, or the file is held open."
)

CALLED = {
    "random.seed": _SEED, "numpy.random.seed": _SEED, "torch.manual_seed": _SEED, "random.": _DRAW,
    "numpy.random.": _DRAW, "subprocess.": _WORLD, "os.": _WORLD, "shutil.": _WORLD, "requests.": _WORLD,
    "urllib.": _WORLD, "socket.": _WORLD, "sqlite3.": _WORLD, "torch.save": _WORLD, "threading.": _WORLD,
    "datetime.": _MOMENT, "uuid.": _MOMENT, "time.": _MOMENT, "open": _FILE, "json.load": _FILE, "pickle.": _FILE,
    "numpy.load": _FILE, "torch.load": _FILE, "pathlib.": _FILE,
    "numpy.": _NUMPY,
}  # fmt: skip
"""By the beginning of the name of what is called on the line, the longest first."""

_CONTEXT = (
    "Enter it outside: put the `with` around the call of the compiled function. No edit is made: what it does is not "
    "known here, and left out in compiled calls it might be missed, as a lock would."
)
_CHOICE = (
    "Write both ways as values that are chosen between, with torch.where, or as functions for torch.cond. No edit is "
    "made: this branch does more than to give names a value, or its test is no expression of tensors alone."
)
_LOOP = (
    "torch.while_loop takes a loop whose body only gives names new tensors, of the same shape and dtype each time. No "
    "edit is made: this one does more, or decides by something else."
)
_NUMBER = (
    "Keep the number a tensor, or read it outside the compiled call: a list's length, a key, a shape or a loop is made "
    "of it here. Where it is a size, torch._check can bound it. No edit is made: which bounds hold is yours to know."
)
_FOREIGN = (
    "Call it outside the compiled function; or make it an op of its own with torch.library.custom_op and a fake "
    "implementation, and the graph goes through it. No edit is made: what it does to its arguments is not known here."
)

KINDS = {
    "Unsupported context manager": _CONTEXT,
    "unsupported contextlib.* API": _CONTEXT,
    "Data-dependent branching": _CHOICE,
    "Data-dependent branching with non-constant __bool__": _CHOICE,
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": _NUMBER,
    "Data dependent operator": _NUMBER,
    "Attempted to call function marked as skipped": _FOREIGN,
    "Attempted to inline function marked as skipped": _FOREIGN,
    "Unsupported Tensor.backward() call": (
        "Compute the gradient with torch.autograd.grad and set torch._dynamo.config.trace_autograd_ops, where this "
        "torch has it; or call backward() outside. No edit is made: the gradients would be kept elsewhere."
    ),
    "Observed exception": (
        "The exception is raised while Dynamo traces, and leaves the function: check what raises it before the "
        "compiled call. No edit is made: when it is raised depends on the call."
    ),
}
"""By torch's `gb_type`."""


def advice(file: str, text: str, line: int, kind: str) -> str:
    """What to do about a break of this kind at a line of a file with this text; in every case a sentence."""
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
    called = None if statement is None or context else _of_called(source, statement)
    return called or KINDS.get(kind, NO_FIX)


def _of_called(source: SyntaxSource, statement: ast.stmt) -> str | None:
    """The advice on something that is called on the line, but for what stands in a block below it."""
    below = {id(n) for block in ("body", "orelse") for s in getattr(statement, block, ()) for n in ast.walk(s)}
    calls = (n for n in ast.walk(statement) if isinstance(n, ast.Call) and id(n) not in below)
    names = [name for call in calls if (name := source.dotted(call.func))]
    known = sorted(CALLED, key=len, reverse=True)
    return next((CALLED[start] for name in names for start in known if name.startswith(start)), None)
