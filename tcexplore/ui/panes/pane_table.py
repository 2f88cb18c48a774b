"""The panes and their views: the one table to edit for a new view.

tests/ui/test_pane_table.py proves that `fields` covers what each view reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcexplore.ui.panes.pane_spec import PaneSpec, View

if TYPE_CHECKING:
    from tcexplore.session import Snapshot

_CAPTURE = ("graphs", "skipped_frames", "complete", "failure")
"""Fields that every view of captured graphs needs, also to say why there are none."""

_NODES = (*_CAPTURE, "recompiles", "breaks", "op_checks", "code.kernels", "code.aten_graphs")
_KERNELS = (*_CAPTURE, "code.kernels", "code.wrappers", "code.aten_graphs")
_DEVICE = (
    *_KERNELS, "target", "code.lowered", "code.not_lowered", "device_queries", "code.assembled", "code.not_assembled",
    "code.roofline", "call_account", "code.vectorized",
)  # fmt: skip
"""The target of the code, and facts from the assembler and the device."""

_GUARDS = (*_CAPTURE, "guards", "recompiles", "extra_compiles", "missing_facts")
_HAS_KERNELS = ("code.kernels", "code.wrappers")
_HAS_GUARDS = ("guards", "recompiles")
_KERNEL = frozenset({"kernel"})


def _compile_phases(s: Snapshot) -> tuple[object, ...]:
    """Return the phases of a finished compile: each step adds one, and an entry's cost is known only at the end."""
    return (s.phase_times if s.complete or s.failure else (),)


def _phase_until_output(s: Snapshot) -> tuple[object, ...]:
    return () if s.output else (s.phase, s.phase_graph)


SOURCE = PaneSpec(
    "source",
    1,
    "Source",
    (
        View(
            "source",
            "tcexplore.documents.source.source_view:source_document",
            (
                "source",
                "sources",
                "graphs",
                "code.aten_graphs",
                "breaks",
                "skipped_frames",
                "guards",
                "code.kernels",
                "other_codes",
                "timing",
                "call_account",
                "eager_lines",
                "failure",
            ),
            kinds=frozenset({"line"}),
        ),
    ),
)

GRAPH = PaneSpec(
    "graph",
    2,
    "Graph",
    (
        View("nodes", "tcexplore.documents.graph.graph_view:graph_document", _NODES, ("graphs",), frozenset({"node"})),
        View(
            "code",
            "tcexplore.documents.graph.graph_view:readable_document",
            (*_CAPTURE, "recompiles"),
            ("graphs",),
            frozenset({"node"}),
        ),
        View(
            "decomp",
            "tcexplore.documents.graph.decomposition_view:decomposition_document",
            (*_NODES, "guards", "sources"),
            ("graphs",),
            frozenset({"line", "node", "aten"}),
        ),
        View(
            "aot",
            "tcexplore.documents.graph.aot_view:aot_document",
            (*_KERNELS, "recompiles", "code.partitions", "missing_facts"),
            ("code.aten_graphs",),
            frozenset({"aten"}),
        ),
        View(
            "passes",
            "tcexplore.documents.graph.passes_view:passes_document",
            (*_CAPTURE, "recompiles", "code.passes", "cache_lookups", "missing_facts"),
            ("code.passes",),
        ),
    ),
)

BREAKS = PaneSpec(
    "breaks",
    3,
    "Breaks",
    (
        View(
            "breaks",
            "tcexplore.documents.breaks_view:breaks_document",
            (*_CAPTURE, "breaks", "fixes", "call_account", "break_costs", "first_break_costs"),
            ("breaks", "graphs", "skipped_frames"),
            frozenset({"break", "line"}),
        ),
    ),
)

GUARDS = PaneSpec(
    "guards",
    4,
    "Guards",
    (
        View(
            "guards",
            "tcexplore.documents.guards.guards_view:guards_document",
            (
                *_GUARDS,
                "symbols",
                "frames",
                "timing",
                "call_account",
                "entry",
                "guard_filters",
                "recompile_fixes_tried",
            ),
            _HAS_GUARDS,
            frozenset({"guard"}),
        ),
        View(
            "entries",
            "tcexplore.documents.guards.cache_entries_view:cache_entries_document",
            (*_GUARDS, "frames", "calls", "region_compiles"),
            _HAS_GUARDS,
            frozenset({"entry", "guard"}),
            changing=_compile_phases,
        ),
        View(
            "symbols",
            "tcexplore.documents.guards.symbols_view:symbols_document",
            (*_GUARDS, "symbols", "frames", "recompile_fixes_tried"),
            _HAS_GUARDS,
        ),
        View(
            "check",
            "tcexplore.documents.guards.recompile_check_view:recompile_check_document",
            (*_GUARDS, "recompile_answers", "frames", "entry"),
            (*_HAS_GUARDS, "recompile_answers"),
            frozenset({"entry"}),
        ),
    ),
)

CODE = PaneSpec(
    "code",
    5,
    "Code",
    (
        View(
            "kernels",
            "tcexplore.documents.code.kernels_view:kernels_document",
            _DEVICE,
            _HAS_KERNELS,
            frozenset({"kernel", "aten"}),
        ),
        View(
            "fusion",
            "tcexplore.documents.code.fusion_view:fusion_document",
            (*_KERNELS, "code.fusion", "code.schedules", "missing_facts"),
            _HAS_KERNELS,
            _KERNEL,
        ),
        View(
            "stages",
            "tcexplore.documents.code.stages_view:stages_document",
            _DEVICE,
            _HAS_KERNELS,
            frozenset({"statement", "kernel"}),
            folds="tcexplore.documents.code.stages_view:find_hiding_folds",
        ),
        View("resources", "tcexplore.documents.code.resources_view:resources_document", _DEVICE, _HAS_KERNELS, _KERNEL),
        View("roofline", "tcexplore.documents.code.roofline_view:roofline_document", _DEVICE, _HAS_KERNELS, _KERNEL),
        View(
            "autotuning",
            "tcexplore.documents.code.autotuning_view:autotuning_document",
            (*_KERNELS, "autotuned"),
            _HAS_KERNELS,
            _KERNEL,
        ),
    ),
)

TIMING = PaneSpec(
    "timing",
    6,
    "Timing",
    (
        View(
            "timing",
            "tcexplore.documents.timing.timing_view:timing_document",
            (
                *_CAPTURE,
                "device",
                "profile_effect",
                "cuda_graphs",
                "cuda_graphs_skipped",
                "timing",
                "pairs",
                "calls",
                "call_account",
                "phase_times",
                "code.kernels",
                "timing_skipped",
                "accuracy",
                "grad_mode",
                "memory",
                "code.partitions",
                "other_codes",
                "recompiles",
                "kernel_compiles",
                "compile_workers",
                "cache_lookups",
                "status",
                "expected_calls",
                "regions",
                "region_calls",
                "region_compiles",
                "backward_captures",
            ),
            ("timing", "pairs", "timing_skipped", "regions"),
        ),
        View(
            "lines",
            "tcexplore.documents.timing.hot_lines_view:hot_lines_document",
            (
                *_CAPTURE,
                "timing",
                "call_account",
                "eager_lines",
                "code.kernels",
                "code.aten_graphs",
                "other_codes",
                "sources",
                "breaks",
                "guards",
                "missing_facts",
                "timing_skipped",
            ),
            ("eager_lines",),
            frozenset({"line"}),
        ),
        View(
            "timeline",
            "tcexplore.documents.timing.timeline_view:timeline_document",
            (
                *_CAPTURE,
                "regions",
                "region_calls",
                "region_compiles",
                "region_graphs",
                "recompiles",
                "phase_times",
                "script_end",
                "entry",
                "backward_captures",
            ),
            ("regions", "complete"),
        ),
        View(
            "state dict",
            "tcexplore.documents.timing.state_dict_view:state_dict_document",
            (*_CAPTURE, "state_keys", "entry", "missing_facts"),
            ("state_keys", "complete"),
        ),
    ),
)

OUTPUT = PaneSpec(
    "output",
    7,
    "Output",
    (
        View(
            "output",
            "tcexplore.documents.output_view:output_document",
            ("output", "output_dropped", "failure", "missing_facts", "complete"),
            changing=_phase_until_output,
        ),
    ),
)

PANES: tuple[PaneSpec, ...] = (SOURCE, GRAPH, BREAKS, GUARDS, CODE, TIMING, OUTPUT)
"""In the order of their numbers."""
