"""Calls that compiled code can do without (side effects, clocks, profilers), and what the file tells Dynamo.

Breaks that it requests are removed, flags that let Dynamo trace are set.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.syntax_source import Edit, Function, SyntaxSource, has_multiline_string

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


BREAKS = ("torch._dynamo.graph_break", "torch._dynamo.skip_frame")
DISABLES = ("torch.compiler.disable", "torch._dynamo.disable", "torch.compiler._disable")


def explicit_break_fixes(site: Site) -> Iterator[Fix]:
    """Remove the line."""
    source, statement = site.source, site.statement
    match statement:
        case ast.Expr(value=ast.Call(func=function)) if source.dotted(function) in BREAKS and source.alone(statement):
            yield Fix("remove the line", "The line that requests the break is removed.", (removed(source, statement),))


def disable_fixes(site: Site) -> Iterator[Fix]:
    """Remove the decorator from the called function."""
    source = site.source
    names = {source.dotted(node.func).rpartition(".")[2] for node in _calls(site.statement)}
    functions = (n for n in ast.walk(source.tree) if isinstance(n, Function) and n.name in names)
    for function in functions:
        for decorator in (d for d in function.decorator_list if _disables(source, d)):
            first, last = decorator.lineno, decorator.end_lineno or decorator.lineno
            yield Fix(
                "compile it too",
                f"`{function.name}` is compiled too.",
                (Edit(source.line_start(first), source.line_start(last + 1), ""),),
                (f"`{function.name}` was excluded for a reason: check whether it still holds.",),
            )


def _calls(statement: ast.stmt) -> list[ast.Call]:
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name | ast.Attribute)]


def _disables(source: SyntaxSource, decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return source.dotted(function) in DISABLES


def removed(source: SyntaxSource, statement: ast.stmt) -> Edit:
    """Return an edit that removes a statement; it leaves `pass` in a block that would be empty."""
    if len(source.block(statement)) == 1:
        return Edit(source.start(statement), source.end(statement), "pass")
    last = statement.end_lineno or statement.lineno
    return Edit(source.line_start(statement.lineno), source.line_start(last + 1), "")


CALL_EFFECTS = {
    "print": "print nothing",
    "warnings.warn": "do not warn",
    "warnings.simplefilter": "do not change the warning filters",
    "warnings.filterwarnings": "do not change the warning filters",
    "time.sleep": "do not wait",
    "gc.collect": "do not collect garbage",
    "sys.stdout.flush": "do not flush",
    "sys.stdout.write": "print nothing",
    "sys.stderr.write": "print nothing",
    "pprint.pprint": "print nothing",
    "rich.print": "print nothing",
    "breakpoint": "do not stop in the debugger",
    "pdb.set_trace": "do not stop in the debugger",
    "torch.cuda.synchronize": "do not wait for the device",
    "torch.cuda.empty_cache": "keep the allocator's cache",
    "tqdm.tqdm.write": "print nothing",
}
"""What compiled calls no longer do, by called function."""

LOGGING = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})


def side_effect_fixes(site: Site) -> Iterator[Fix]:
    """Print after the graph, or skip the call while compiling."""
    called = _call_and_effect(site)
    if called is None:
        return
    name, does = called
    if name == "print":
        yield from _print_after_graph(site)
    yield from _eager_only(site, does)


def _call_and_effect(site: Site) -> tuple[str, str] | None:
    statement = site.statement
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    function = statement.value.func
    name = site.source.dotted(function)
    if name in CALL_EFFECTS:
        return name, CALL_EFFECTS[name]
    return (name, "log nothing") if _logs(site.source, function) else None


def _logs(source: SyntaxSource, function: ast.expr) -> bool:
    """Return whether this is a method of the logging module, or of a logger from `logging.getLogger`."""
    if not isinstance(function, ast.Attribute) or function.attr not in LOGGING:
        return False
    owner = source.dotted(function.value)
    return owner == "logging" or any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and source.dotted(node.value.func) == "logging.getLogger"
        and any(source.dotted(target) == owner for target in node.targets)
        for node in ast.walk(source.tree)
    )


def _print_after_graph(site: Site) -> Iterator[Fix]:
    edit = dynamo_line(site, "config.reorderable_logging_functions.add(print)", "reorderable_logging")
    if edit is not None:
        yield Fix(
            "print after the graph",
            "Dynamo moves the `print` after the graph, with the same values.",
            (edit,),
            ("A compiled call prints when its graph has finished.",),
            prints=True,
        )


def _eager_only(site: Site, does: str) -> Iterator[Fix]:
    source, statement = site.source, site.statement
    torch = source.torch
    if torch is None or not source.alone(statement):
        return
    step = "\t" if source.indent(statement).startswith("\t") else "    "
    start = source.start(statement)
    head = f"if not {torch}.compiler.is_compiling():{source.newline}{source.indent(statement)}{step}"
    rest = source.lines[statement.lineno : statement.end_lineno]
    inside = [Edit(source.line_start(statement.lineno + 1 + n), source.line_start(statement.lineno + 1 + n), step)
              for n, line in enumerate(rest) if line.strip() and not has_multiline_string(statement)]  # fmt: skip
    yield Fix(
        "in eager calls only",
        "Dynamo skips the line while tracing.",
        (Edit(start, start, head), *inside),
        (f"Compiled calls {does}; eager calls are unchanged.",),
    )


# ---- clocks


ZERO = {
    "time.time": "0.0", "time.perf_counter": "0.0", "time.monotonic": "0.0", "time.process_time": "0.0",
    "time.time_ns": "0", "time.perf_counter_ns": "0", "time.monotonic_ns": "0",
}  # fmt: skip


def clock_fixes(site: Site) -> Iterator[Fix]:
    """Use 0 for the time in compiled calls."""
    source, torch = site.source, site.source.torch
    calls = [n for n in ast.walk(site.statement) if isinstance(n, ast.Call) and source.dotted(n.func) in ZERO]
    if not calls or torch is None:
        return
    edits = []
    for call in calls:
        zero = ZERO[source.dotted(call.func)]
        edits += [Edit(source.start(call), source.start(call), "("),
                  Edit(source.end(call), source.end(call), f" if not {torch}.compiler.is_compiling() else {zero})")]  # fmt: skip # noqa: E501
    yield Fix(
        "no clock in compiled calls",
        "Dynamo traces a constant instead of the time.",
        tuple(edits),
        ("In compiled calls the time is 0; measure them from outside.",),
    )


# ---- context managers


CONTEXT_EFFECTS = {
    "contextlib.redirect_stdout": "do not redirect what is printed",
    "contextlib.redirect_stderr": "do not redirect what is printed",
    "warnings.catch_warnings": "do not change the warning filters",
    "torch.cuda.nvtx.range": "mark no ranges",
    "torch.profiler.profile": "are not profiled",
    "torch.autograd.profiler.profile": "are not profiled",
    "torch.autograd.profiler.emit_nvtx": "mark no ranges",
    "torch.autograd.detect_anomaly": "do not detect anomalies",
    "torch.autograd.set_detect_anomaly": "do not detect anomalies",
}
"""What compiled calls no longer do, by context manager."""


def context_fixes(site: Site) -> Iterator[Fix]:
    """Skip the context manager in compiled calls."""
    source, torch = site.source, site.source.torch
    if not isinstance(site.statement, ast.With) or torch is None:
        return
    for item in site.statement.items:
        call = item.context_expr
        does = CONTEXT_EFFECTS.get(source.dotted(call.func)) if isinstance(call, ast.Call) else None
        if does is None or item.optional_vars is not None:
            continue
        known = next((name for name, full in source.imported.items() if full == "contextlib"), None)
        chosen = f"{known or 'contextlib'}.nullcontext() if {torch}.compiler.is_compiling() else "
        start = source.start(call)
        edits = (Edit(start, start, chosen),)
        yield Fix(
            "in eager calls only",
            "Dynamo traces a null context instead.",
            edits if known else (source.importing("contextlib"), *edits),
            (f"Compiled calls {does}; eager calls are unchanged.",),
        )
        return
