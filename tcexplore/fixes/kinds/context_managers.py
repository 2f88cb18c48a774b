"""`with` a context manager that only watches what is done inside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcexplore.fixes.fix import Fix, Site
from tcexplore.fixes.text_edit import Edit

DOES = {
    "contextlib.redirect_stdout": "do not redirect what is printed",
    "contextlib.redirect_stderr": "do not redirect what is printed",
    "warnings.catch_warnings": "leave the warning filters as they are",
    "torch.cuda.nvtx.range": "mark no range",
    "torch.profiler.profile": "are not profiled",
    "torch.autograd.profiler.profile": "are not profiled",
    "torch.autograd.profiler.emit_nvtx": "mark no range",
    "torch.autograd.detect_anomaly": "do not look for anomalies",
    "torch.autograd.set_detect_anomaly": "do not look for anomalies",
}
"""What compiled calls do not do any more, by what is called."""


def propose(site: Site) -> Iterator[Fix]:
    """No context in compiled calls."""
    source, torch = site.source, site.source.torch
    if not isinstance(site.statement, ast.With) or torch is None:
        return
    for item in site.statement.items:
        call = item.context_expr
        does = DOES.get(source.dotted(call.func)) if isinstance(call, ast.Call) else None
        if does is None or item.optional_vars is not None:
            continue
        known = next((name for name, full in source.imported.items() if full == "contextlib"), None)
        chosen = f"{known or 'contextlib'}.nullcontext() if {torch}.compiler.is_compiling() else "
        start = source.start(call)
        edits = (Edit(start, start, chosen),)
        yield Fix(
            "in eager calls alone",
            "While Dynamo traces, there is no context.",
            edits if known else (source.importing("contextlib"), *edits),
            (f"Compiled calls {does}; eager calls do as before.",),
        )
        return
