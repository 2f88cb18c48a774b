"""How errors grow, as rows and as JSON: the errors of results, what kernels add to them, and modules that amplify."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tcexplore.documents.document import Row
from tcexplore.documents.labels import labels
from tcexplore.documents.prose import BLANK, Column, heading, table, wrapped
from tcexplore.events import GraphPhase, KernelErrorGrowth, ModuleErrorGrowth, ResultError
from tcexplore.quantities import count
from tcexplore.session import Snapshot
from tcexplore.session.graph_inputs import input_name
from tcexplore.session.links import Link
from tcexplore.studies.study_json import Fields

MOST_ROWS = 8
"""Rows of each table."""

AMPLIFIES = 1.5
"""Amplification from which a module is listed."""

LEGEND = (
    "Errors are norms, relative to the float64 value. adds: error of the kernel alone, on its own inputs. at outputs, "
    "at gradients: what becomes of this error. passed on: error of a module's outputs if it computed exactly from what "
    "it got."
)


def error_text(value: float) -> str:
    """Return a relative error as text."""
    if math.isinf(value):
        return "not finite"
    return f"{value:.1e}" if value else "0"


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


def kernel_name(run: Snapshot, graph: str, phase: GraphPhase, kernel: str) -> str:
    """Return the label of a kernel and its name: `E4 addmm:3`, `kernel 2 triton_poi_fused_0`."""
    label = labels(run).kernel.get(Link("kernel", f"{graph}/{phase}", kernel))
    name = kernel.removeprefix("torch.ops.").removeprefix("extern_kernels.")
    return f"{label.name} {name}" if label else name


def result_name(run: Snapshot, one: ResultError) -> str:
    """Return the name of an output or a gradient."""
    if one.phase != "backward":
        return f"output {one.number}"
    name = input_name(run.graphs, one.graph, one.number)
    return f"gradient of {name.removeprefix('self.')}" if name else f"gradient {one.number}"


def amplification(one: ModuleErrorGrowth) -> float:
    """Return the factor by which a module makes the error of its inputs larger."""
    return one.passed_on / one.error_in


def _factor(share: float | None, local: float) -> float | None:
    return None if share is None or not local else share / local


def _times(value: float) -> str:
    return f"{value:.2f}×" if value < 9.95 else f"{value:,.0f}×"


def _kernel_columns(run: Snapshot) -> tuple[Column[KernelErrorGrowth], ...]:
    return (
        Column("", lambda one: f"{one.graph} {one.phase}", style="muted", left=True),
        Column("kernel", lambda one: kernel_name(run, one.graph, one.phase, one.kernel), left=True, squeezable=True),
        Column("adds", lambda one: one.local, error_text),
        Column("at outputs", lambda one: one.output, error_text),
        Column("", lambda one: _factor(one.output, one.local), _times, style="muted", drop=1),
        Column("at gradients", lambda one: one.gradient, error_text),
        Column("", lambda one: _factor(one.gradient, one.local), _times, style="muted", drop=1),
    )


@dataclass(frozen=True, slots=True)
class AlikeModules:
    """Modules whose paths differ in numbers only."""

    worst: ModuleErrorGrowth
    number: int

    @property
    def name(self) -> str:
        """Path of the worst one."""
        path = self.worst.module.removeprefix("self.")
        return f"{path}, worst of {self.number}" if self.number > 1 else path


MODULES: tuple[Column[AlikeModules], ...] = (
    Column("", lambda one: f"{one.worst.graph} {one.worst.phase}", style="muted", left=True),
    Column("module", lambda one: one.name, left=True, squeezable=True),
    Column("in", lambda one: one.worst.error_in, error_text),
    Column("out", lambda one: one.worst.error_out, error_text, drop=1),
    Column("passed on", lambda one: one.worst.passed_on, error_text),
    Column("amplifies", lambda one: amplification(one.worst), _times, style="warn"),
)


def growth_rows(run: Snapshot, width: int) -> Iterator[Row]:
    """Yield the errors of the results, the kernels that they come from, and the modules that amplify them."""
    if not run.result_errors:
        return
    yield BLANK
    yield heading("How errors grow", "relative to float64")
    results = sorted(run.result_errors, key=lambda one: one.compiled, reverse=True)
    results_table: tuple[Column[ResultError], ...] = (
        Column("result", lambda one: result_name(run, one), left=True, squeezable=True),
        Column("compiled", lambda one: one.compiled, error_text),
        Column("eager", lambda one: one.eager, error_text),
    )
    yield from table(results_table, results[:MOST_ROWS], width=width)
    yield from _others(len(results), "result", width)
    kernels = sorted(run.kernel_errors, key=_share, reverse=True)
    if kernels:
        yield BLANK
        yield from table(_kernel_columns(run), kernels[:MOST_ROWS], width=width)
        yield from _others(len(kernels), "kernel call", width)
    modules = amplifying(run.module_errors)
    if modules:
        yield BLANK
        yield from table(MODULES, modules[:MOST_ROWS], width=width)
        yield from _others(len(modules), "module", width)
    elif run.module_errors:
        yield from wrapped(f"No module amplifies the error of its inputs by {AMPLIFIES}× or more.", width)
    for reason in dict.fromkeys(fact.reason for fact in run.missing_facts if fact.fact == "how errors grow"):
        yield from wrapped(f"Not measured: {reason}.", width, "warn")
    yield from wrapped(LEGEND, width, "dim")


def _others(total: int, noun: str, width: int) -> Iterator[Row]:
    if total > MOST_ROWS:
        yield from wrapped(f"{count(total - MOST_ROWS, f'more {noun}')} with less; --json has all.", width, "muted")


def _share(one: KernelErrorGrowth) -> float:
    return max(one.output or 0.0, one.gradient or 0.0)


def amplifying(modules: Sequence[ModuleErrorGrowth]) -> list[AlikeModules]:
    """Return the modules that amplify, alike ones together, the strongest first."""
    alike: dict[tuple[str, str, str], list[ModuleErrorGrowth]] = {}
    for one in modules:
        # From an infinite error on, nothing is amplified.
        if math.isfinite(one.error_out) and amplification(one) >= AMPLIFIES:
            alike.setdefault((one.graph, one.phase, re.sub(r"\.\d+\b", ".N", one.module)), []).append(one)
    groups = [AlikeModules(max(each, key=amplification), len(each)) for each in alike.values()]
    return sorted(groups, key=lambda group: amplification(group.worst), reverse=True)


def growth_fields(run: Snapshot) -> Fields | None:
    """Return the errors of results, kernels and modules; None if they are not known."""
    if not run.result_errors:
        return None
    return {
        "results": [
            {
                "graph": one.graph, "phase": one.phase, "name": result_name(run, one), "node": one.node,
                "compiled": _finite(one.compiled), "eager": _finite(one.eager),
            }
            for one in run.result_errors
        ],
        "kernels": [
            {
                "graph": one.graph, "phase": one.phase, "kernel": one.kernel, "order": one.order, "adds": one.local,
                "at_outputs": one.output, "at_gradients": one.gradient,
            }
            for one in run.kernel_errors
        ],
        "modules": [
            {
                "graph": one.graph, "phase": one.phase, "module": one.module, "ops": one.ops,
                "in": _finite(one.error_in), "out": _finite(one.error_out), "passed_on": _finite(one.passed_on),
                "amplification": _finite(amplification(one)),
            }
            for one in run.module_errors
        ],
    }  # fmt: skip
