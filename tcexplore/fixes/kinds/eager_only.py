"""Calls and contexts that compiled code can do without: side effects, clocks, profilers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.kinds.dynamo_flags import dynamo_line
from tcexplore.fixes.syntax_source import SyntaxSource, has_multiline_string
from tcexplore.fixes.text_edit import Edit

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
