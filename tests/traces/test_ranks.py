"""Comparison of ranks: each seeded difference is named with its cause and line, and equal programs agree."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tcexplore import events as ev
from tcexplore.documents.ranks_view import verdict_rows
from tcexplore.events import Location
from tcexplore.events.rank_events import ENDED_EARLY, RankRow, RanksCompared, name_ranks
from tcexplore.session.run_diff import without_device
from tcexplore.traces.environment_differences import Difference
from tcexplore.traces.graph_differences import GRAPH_ENDS, RankNodes, graph_difference
from tcexplore.traces.rank_comparison import RankEnd, collective_on_one_side, compare_fingerprints, compare_ranks
from tcexplore.traces.rank_differences import _Pair
from tcexplore.traces.rank_fingerprint import RankCounts, RankFingerprint
from tcexplore.traces.rank_normalization import follows_rank, normalize
from tcexplore.traces.trace_context import collective_lines, with_waits
from tcexplore.traces.trace_inputs import trace_inputs
from tcexplore.traces.trace_job import open_inputs
from tcexplore.traces.trace_run import TraceRun, read_snapshot

SEEDED = Path(__file__).parent / "programs" / "seeded.py"
RECORD_TIME = re.compile(r"(?m)^([VIWE]\d{4} \d\d:)(\d\d)(?=:\d\d\.)")
RECORD = re.compile(r"^(?=[VIWE]\d{4} \d\d:)", re.M)


def line_of(code: str) -> int:
    """Return the line of the seeded program that contains a text."""
    return next(n for n, line in enumerate(SEEDED.read_text().split("\n"), 1) if code in line)


def compared(folder: Path) -> RanksCompared:
    opened = open_inputs(trace_inputs([str(folder)]))
    assert len(opened.jobs) == 1
    return compare_ranks(opened.jobs[0], opened.problems)


def edited(folder: Path, into: Path, rank: int, edit: Callable[[str], str]) -> Path:
    """Copy a trace with the records of one rank edited; checksums follow the payloads."""
    shutil.copytree(folder, into)
    (path,) = into.glob(f"*_rank_{rank}_*")
    records = []
    for record in RECORD.split("".join(map(edit, RECORD.split(path.read_text())))):
        head, newline, payload = record.partition("\n")
        if payload:
            body = payload.removesuffix("\n").removeprefix("\t").replace("\n\t", "\n")
            digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
            head = re.sub(r'"has_payload": "\w+"', f'"has_payload": "{digest}"', head)
        records.append(head + newline + payload)
    path.write_text("".join(records))
    return into


def test_an_input_and_a_break_are_named_as_the_user_would(traces: Path):
    dtype, graph_break = (compared(traces / name).divergence for name in ("dtype", "break"))
    assert dtype is not None
    assert graph_break is not None
    assert dtype.detail == "input self.linear.weight has another dtype"
    assert [side.text for side in dtype.sides] == ["self.linear.weight: f32[8, 8]", "self.linear.weight: f64[8, 8]"]
    assert graph_break.detail == "only rank 1 has this graph break"


@pytest.mark.parametrize(
    ("seed", "kind", "graph", "code"),
    [
        ("branch", "branch", "0/0", "x.sin() if self.smooth"),
        ("shape", "shape", "0/1", "x = self.linear(x)"),
        ("dtype", "dtype", "0/0", "x = self.linear(x)"),
        ("break", "break", "0/0", 'print("sum"'),
        ("guard", "guard", "0/0", "if self.label:"),
        ("config", "config", None, "def forward"),
        ("environment", "environment", "0/0", "def forward"),
        ("collectives", "collective order", "1/0", "def exchange"),
        ("cache", "cache", "0/0", "def forward"),
    ],
)
def test_a_seeded_difference_is_named_with_its_cause(
    traces: Path, seed: str, kind: str, graph: str | None, code: str | None
):
    divergence = compared(traces / seed).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.ranks, divergence.compile_id) == (kind, (0, 1), graph)
    assert (divergence.location.line if divergence.location else None) == (line_of(code) if code else None)
    assert [side.ranks for side in divergence.sides] == [(0,), (1,)]
    assert divergence.sides[0].text != divergence.sides[1].text


def test_the_sides_of_a_condition_have_the_values_that_it_read(traces: Path):
    divergence = compared(traces / "branch").divergence
    assert divergence is not None
    assert divergence.detail == "the ranks take different sides of `x = x.sin() if self.smooth else x.cos()`"
    assert [side.values for side in divergence.sides] == [("self.smooth == True",), ("self.smooth == False",)]


@pytest.mark.parametrize(
    "program",
    ["same", "breaks", "ddp", "shard", "dynamic", "groups", "scalar", "scatter", "fsdp", "tensor_parallel"],
)
def test_ranks_that_do_the_same_agree(traces: Path, program: str):
    comparison = compared(traces / program)
    assert comparison.divergence is None
    assert comparison.groups == (tuple(row.rank for row in comparison.rows),)
    assert len(comparison.rows) == (4 if program == "fsdp" else 2)
    assert all(row.graphs for row in comparison.rows)


FIRST = '"frame_id": 0, "frame_compile_id": 0, "attempt": 0'


def restart(text: str) -> str:
    """Add an attempt with another graph before that of the first compile, as after a restart."""
    head = text.partition("\n")[0]
    if '"dynamo_output_graph"' not in head or FIRST not in head:
        return text
    return text.replace("torch.sin", "torch.cos").replace(".sin(", ".cos(") + text.replace(
        FIRST, FIRST.replace('"attempt": 0', '"attempt": 1')
    )


def test_an_attempt_that_torch_gave_up_is_no_difference_and_is_listed(traces: Path, tmp_path: Path):
    folder = edited(traces / "same", tmp_path / "restarted", 1, restart)
    comparison = compared(folder)
    assert comparison.divergence is None
    first, second = comparison.rows
    assert first.graphs == second.graphs
    assert (first.restarts, second.restarts) == (0, 1)
    job = open_inputs(trace_inputs([str(folder)])).jobs[0]
    run = read_snapshot(TraceRun(job.ranks[1], 1))
    assert [known.graph for known in run.restarts] == ["0/0"]
    assert run.restarts[0].location is not None
    assert len(run.graphs) == second.graphs


def restart_with_another_graph(text: str) -> str:
    """Add an attempt after that of the first compile, with another graph."""
    head = text.partition("\n")[0]
    if '"dynamo_output_graph"' not in head or FIRST not in head:
        return text
    changed = text.replace("torch.sin", "torch.cos").replace(".sin(", ".cos(")
    return text + changed.replace(FIRST, FIRST.replace('"attempt": 0', '"attempt": 1'))


def test_a_rank_that_needs_no_restart_does_not_differ(traces: Path, tmp_path: Path):
    comparison = compared(edited(traces / "same", tmp_path / "hit", 1, restart_with_another_graph))
    assert comparison.divergence is None
    assert any("rank 1 traced it again, rank 0 did not have to" in note for note in comparison.notes)


def test_breaks_are_counted_the_same_in_the_table_and_in_the_list(traces: Path):
    for folder in ("breaks", "ddp", "fsdp", "break"):
        job = open_inputs(trace_inputs([str(traces / folder)])).jobs[0]
        for row, process in zip(compare_ranks(job).rows, job.ranks, strict=True):
            assert row.break_places == len(read_snapshot(TraceRun(process, 1)).breaks), folder


def test_another_version_of_a_library_is_named(traces: Path, tmp_path: Path):
    folder = edited(traces / "same", tmp_path / "versions", 1, lambda text: text.replace("2.13.0+cpu", "2.12.1+cpu"))
    divergence = compared(folder).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.ranks) == ("library version", (0, 1))
    assert [side.text for side in divergence.sides] == ["torch 2.13.0+cpu", "torch 2.12.1+cpu"]


def add_variable(text: str) -> str:
    return text.replace("\timport os\n", "\timport os\n\tos.environ['TORCHINDUCTOR_MAX_AUTOTUNE'] = '1'\n")


def test_a_script_from_a_cache_does_not_tell_the_environment_of_its_rank(traces: Path, tmp_path: Path):
    divergence = compared(edited(traces / "cache", tmp_path / "cached", 1, add_variable)).divergence
    assert divergence is not None
    assert divergence.kind == "cache"


def test_a_guard_of_how_a_setting_was_set_is_no_difference(traces: Path, tmp_path: Path):
    state = "torch.compiler.config._config['compile_on_one_rank'].user_override.get()"
    guard = f"\t| +- TYPE_MATCH: ___check_type_id(__import_torch.{state}, 12), type=<class 'object'>\n"

    def add_guard(text: str) -> str:
        return text.replace("\t+- RootGuardManager\n", f"\t+- RootGuardManager\n{guard}")

    folder = edited(traces / "same", tmp_path / "state", 1, add_guard)
    assert any(guard in path.read_text() for path in folder.iterdir())
    assert compared(folder).divergence is None


def test_a_record_with_a_wrong_checksum_is_no_difference(traces: Path, tmp_path: Path):
    folder = tmp_path / "damaged"
    shutil.copytree(traces / "same", folder)
    (path,) = folder.glob("*_rank_0_*")
    head, payload = re.search(r'"dynamo_output_graph".*?has_payload": "\w+"', path.read_text()), "0" * 32
    assert head is not None
    path.write_text(path.read_text().replace(head[0], re.sub(r'\w+"$', f'{payload}"', head[0])))
    comparison = compared(folder)
    assert comparison.divergence is None
    assert "dynamo_output_graph of 0/0 is not compared: rank 0 has it with a wrong checksum." in comparison.notes


def test_an_environment_variable_of_one_rank_is_named(traces: Path, tmp_path: Path):
    divergence = compared(edited(traces / "same", tmp_path / "variable", 1, add_variable)).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.ranks) == ("environment", (0, 1))
    assert [side.text for side in divergence.sides] == [
        "TORCHINDUCTOR_MAX_AUTOTUNE is not set", "TORCHINDUCTOR_MAX_AUTOTUNE=1",
    ]  # fmt: skip


def test_a_guarded_constant_is_named_as_a_guard(traces: Path, tmp_path: Path):
    def change(text: str) -> str:
        text = text.replace("= x_2 * 2;", "= x_2 * 3;")
        return text.replace("L['self'].label == 'any'", "L['self'].label == 'other'")

    divergence = compared(edited(traces / "same", tmp_path / "constant", 1, change)).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.compile_id) == ("guard", "0/0")
    assert "other" in divergence.sides[1].text


def test_a_hit_of_what_another_rank_has_just_written_is_no_difference(traces: Path, tmp_path: Path):
    """Rank 1 of the trace with a warm cache hits; moved behind rank 0's compile, that is a race."""

    def later(text: str) -> str:
        return RECORD_TIME.sub(lambda match: f"{match[1]}{int(match[2]) + 2:02}", text)

    folder = edited(traces / "cache", tmp_path / "race", 1, later)
    comparison = compared(folder)
    assert comparison.divergence is None
    assert any("had just written" in note for note in comparison.notes)
    assert any("Clock skew" in note for note in comparison.notes)
    in_turns = compare_ranks(open_inputs(trace_inputs([str(folder)])).jobs[0], in_turns=True)
    assert not any("Clock skew" in note for note in in_turns.notes)


def test_another_autotuning_winner_is_named(traces: Path, tmp_path: Path):
    def add_winner(warps: int) -> Callable[[str], str]:
        info = json.dumps({"triton_a": {"best_config": [["XBLOCK", 8], ["num_warps", warps]]}})
        head = '"artifact": {"name": "triton_kernel_info", "encoding": "json"}'

        def edit(text: str) -> str:
            return text if '"fx_graph_cache_miss"' not in text else text + re.sub(
                r'"artifact": \{.*?\}', head, text.partition("\n")[0]
            ) + f"\n\t{info}\n"  # fmt: skip

        return edit

    folder = edited(traces / "same", tmp_path / "first", 0, add_winner(2))
    folder = edited(folder, tmp_path / "second", 1, add_winner(4))
    divergence = compared(folder).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.ranks, divergence.compile_id) == ("autotuning", (0, 1), "0/0")
    assert [side.text for side in divergence.sides] == ["XBLOCK=8, num_warps=2", "XBLOCK=8, num_warps=4"]


@pytest.mark.parametrize(
    ("call", "chosen"),
    [
        ("torch.ops.mkl._mkl_linear.default(", "torch.ops.mkl._mkl_linear"),
        ("pass\n\tinline void kernel_micro_gemm(", "C++ template kernel_micro_gemm"),
    ],
)
def test_another_kernel_for_the_same_graph_is_named_with_its_line(traces: Path, tmp_path: Path, call: str, chosen: str):
    def choose(text: str) -> str:
        return text.replace("extern_kernels.addmm(", call)

    divergence = compared(edited(traces / "same", tmp_path / "chosen", 1, choose)).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.ranks, divergence.compile_id) == ("autotuning", (0, 1), "0/0")
    assert [side.text for side in divergence.sides] == ["extern_kernels.addmm", chosen]
    assert divergence.location is not None
    assert divergence.location.line == line_of("x = self.linear(x)")


def test_a_fake_rank_that_ended_early_is_named_with_its_reason(traces: Path, tmp_path: Path):
    def end(text: str) -> str:
        if '"compilation_metrics"' not in text.partition("\n")[0]:
            return text
        head = re.sub(
            r"\] \{.*", f'] {{"artifact": {{"name": "{ENDED_EARLY}"}}, "has_payload": "x"}}', text.split("\n")[0]
        )
        return f"{text}{head}\n\tjob.py:3 needs the results of communication\n"

    comparison = compared(edited(traces / "same", tmp_path / "ended", 1, end))
    assert comparison.divergence is None
    assert comparison.ended_early == ("Rank 1 ended early: job.py:3 needs the results of communication",)
    text = "\n".join(row.text for row in verdict_rows(comparison, 78))
    assert "compile the same until the first one ended early" in text
    assert "Rank 1 ended early" in text


@pytest.mark.parametrize("rank", [0, 1])
def test_a_missing_rank_is_named(traces: Path, tmp_path: Path, rank: int):
    """That rank 1 existed is known from the process group of a collective."""
    shutil.copytree(traces / "same", tmp_path / "missing")
    (path,) = (tmp_path / "missing").glob(f"*_rank_{rank}_*")
    path.unlink()
    divergence = compared(tmp_path / "missing").divergence
    assert divergence is not None
    assert (divergence.kind, divergence.ranks) == ("missing rank", (rank,))


def test_the_rank_that_differs_is_told_from_those_that_agree(traces: Path, tmp_path: Path):
    folder = tmp_path / "eight"
    folder.mkdir()
    (first,) = (traces / "branch").glob("*_rank_0_*")
    (second,) = (traces / "branch").glob("*_rank_1_*")
    for rank in range(8):
        text = (second if rank == 5 else first).read_text().replace('"rank": 0', f'"rank": {rank}')
        (folder / f"dedicated_log_torch_trace_rank_{rank}_x.log").write_text(text)
    comparison = compared(folder)
    assert comparison.divergence is not None
    assert comparison.divergence.ranks == (5,)
    assert comparison.groups == ((0, 1, 2, 3, 4, 6, 7), (5,))
    assert comparison.divergence.sides[1].ranks == (0, 1, 2, 3, 4, 6, 7)


@pytest.mark.parametrize(
    ("mine", "other", "ranks", "follows"),
    [
        ("getitem(x, 4:8)", "getitem(x, 0:4)", (1, 0), True),
        ("getitem(x, 12:16)", "getitem(x, 4:8)", (3, 1), True),
        ("getitem(x, 4:8)", "getitem(x, 0:4)", (9, 0), True),  # the second rank of the second machine
        ("getitem(x, 5:8)", "getitem(x, 0:4)", (1, 0), False),
        ("mul(x, 2)", "mul(x, 1)", (1, 0), False),
        ("getitem(x, 4:8)", "select(x, 0:4)", (1, 0), False),
    ],
)
def test_a_part_of_a_tensor_may_follow_the_rank(mine: str, other: str, ranks: tuple[int, int], follows: bool):
    assert follows_rank(mine, other, *ranks) is follows


@pytest.mark.parametrize(
    "text",
    [
        "ones = torch.ones([4], device = device(type='cuda', index=RANK))",
        "check_tensor(L['x'], Tensor, DispatchKeySet(CUDA), torch.float32, device=RANK, requires_grad=False)",
        "buf0 = empty_strided((4,), (1,), device='npu:RANK')",
        "with torch.cuda._DeviceGuard(RANK):\n    torch.cuda.set_device(RANK)\n    streamRANK = get_raw_stream(RANK)",
        "'device': DeviceProperties(type='cuda', index=RANK, multi_processor_count=132, cc=90)",
    ],
)
def test_the_number_of_a_ranks_device_is_no_difference(text: str):
    mine, other = (text.replace("RANK", rank) for rank in "01")
    assert normalize(mine) == normalize(other)
    assert without_device(mine) == without_device(other)
    assert normalize(mine) != normalize(other.replace("4", "8").replace("132", "114").replace("torch.", "", 1))


@pytest.mark.parametrize("lowered", [True, False])
def test_a_constant_follows_the_rank_in_any_op_below_dynamo(lowered: bool):
    """DTensor compares indexes with the first row of the rank's part of an embedding."""

    def nodes(rank: int) -> RankNodes:
        less = ev.FxNode(name="lt", op="call_function", target="aten.lt.Scalar", args=f"view, {8 * rank}")
        return RankNodes((less,), rank, lowered)

    difference = graph_difference(nodes(1), nodes(0))
    assert (difference is None) is lowered


def test_collectives_have_the_lines_of_the_users_calls():
    frame = ev.Location("seeded.py", line_of("def exchange"), "exchange")
    swapped = [_all_reduce("max"), _all_reduce("sum")]
    lines = collective_lines(SEEDED.read_text(), frame, swapped)
    assert lines == [line_of('b = collectives.all_reduce(b, "max"'), line_of('a = collectives.all_reduce(a, "sum"')]
    straight = collective_lines(SEEDED.read_text(), frame, swapped[::-1])
    assert straight is not None
    assert [line - lines[0] for line in straight] == [3, 4]


def test_a_collective_after_a_break_has_the_line_of_the_users_call():
    source = """\
def step(x):
    y = collectives.all_reduce(x, "sum", group)
    if y.max() > 0.5:
        y = collectives.all_reduce(y, "sum", group)
    return y
"""
    whole = ev.Location("model.py", 1, "step")
    resumed = ev.Location("model.py", 3, "torch_dynamo_resume_in_step_at_3")
    assert collective_lines(source, whole, [_all_reduce("sum")]) == [2]
    assert collective_lines(source, resumed, [_all_reduce("sum")]) == [4]
    both = source.replace(
        "    return y",
        """    else:
        y = collectives.all_reduce(-y, "sum", group)
    return y""",
    )
    assert collective_lines(both, resumed, [_all_reduce("sum")]) is None


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ((3,), "rank 3"), ((0, 1), "ranks 0 and 1"), ((0, 2), "ranks 0 and 2"), ((0, 2, 3), "ranks 0, 2, 3"),
        ((0, 1, 2, 5), "ranks 0 to 2, 5"),
    ],
)  # fmt: skip
def test_ranks_are_named_briefly(ranks: tuple[int, ...], text: str):
    assert name_ranks(ranks) == text


def test_the_line_is_that_of_the_collective_that_differs():
    """Ranks may agree on the collectives before it."""
    source = """\
def step(x, y):
    x = collectives.all_reduce(x, "sum", group)
    x = x.relu()
    y = collectives.all_reduce(y, "sum", group)
    return x + y
"""
    graph = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4]", L_y_: "f32[4]"):
        l_x_ = L_x_
        l_y_ = L_y_
        tensor: "f32[4]" = torch.ops._c10d_functional.all_reduce(l_x_, 'sum', '0')
        relu: "f32[4]" = tensor.relu()
        tensor_1: "f32[4]" = torch.ops._c10d_functional.all_reduce(l_y_, 'sum', '0')
        return (relu, tensor_1)
"""
    sources = SimpleNamespace(owns=lambda _: True, text=lambda _: source, place=lambda *_: None)
    frames = {"0/0": Location("model.py", 1, "step")}
    side: Any = SimpleNamespace(frames=frames, sources=sources, user_line=lambda _: None, payload=lambda _: graph)
    item: Any = SimpleNamespace(record=SimpleNamespace(graph="0/0"))
    pair = _Pair.__new__(_Pair)
    lines = [
        pair._collective_line(side, item, f"_c10d_functional.all_reduce({name}, 'sum', '0')")
        for name in ("l_x_", "l_y_")
    ]
    assert lines == [Location("model.py", line, "step") for line in (2, 4)]
    assert pair._collective_line(side, item, "relu(tensor)") is None


def test_a_branch_with_a_collective_on_one_side_says_who_calls_it():
    reduced, other = "_c10d_functional.all_reduce(l_x_, 'sum', '1')", "relu(l_x_)"
    branch = Difference("branch", "6/0", "the ranks take different sides of `if a:`", reduced, other)
    assert collective_on_one_side(branch, (1,), (0, 2)) == "; only rank 1 calls a collective there"
    swapped = branch._replace(mine=other, other=reduced)
    assert collective_on_one_side(swapped, (1,), (0, 2)) == "; only ranks 0 and 2 call a collective there"
    for same in (branch._replace(other=reduced), branch._replace(other=GRAPH_ENDS), branch._replace(kind="shape")):
        assert not collective_on_one_side(same, (1,), (0, 2))


def test_a_wait_has_the_line_of_the_collective_before_it():
    started = [replace(_all_reduce("sum"), name=name, inputs=(name[:1],)) for name in ("a_sum", "b_sum")]
    wait = ev.FxNode(name="a", op="call_function", target="torch.ops._c10d_functional.wait_tensor", inputs=("a_sum",))
    later = replace(wait, name="b", inputs=("b_sum",))
    assert with_waits([started[0], wait], {"a_sum": 45}) == {"a_sum": 45, "a": 45}
    overlapped = [*started, wait, later]  # `async_op=True`: the user waits elsewhere
    assert with_waits(overlapped, {"a_sum": 45, "b_sum": 46}) == {"a_sum": 45, "b_sum": 46}


def _all_reduce(reduction: str) -> ev.FxNode:
    return ev.FxNode(name="t", op="call_function", target="_c10d_functional.all_reduce", args=f"x, '{reduction}', '0'")


def test_a_rank_whose_trace_ends_inside_a_compile_is_named_with_its_phase(traces: Path, tmp_path: Path):
    shutil.copytree(traces / "same", tmp_path / "ended")
    (path,) = (tmp_path / "ended").glob("*_rank_1_*")
    records = RECORD.split(path.read_text())
    at = next(n for n, record in enumerate(records) if '"dynamo_output_graph"' in record)
    path.write_text("".join(records[: at + 1]))
    comparison = compared(tmp_path / "ended")
    assert [(row.phase, row.graph) for row in comparison.rows] == [("", ""), ("dynamo", "0/0")]
    divergence = comparison.divergence
    assert divergence is not None
    assert (divergence.kind, divergence.ranks, divergence.compile_id) == ("unfinished rank", (1,), "0/0")
    assert divergence.location is not None


def test_a_rank_whose_trace_lacks_its_beginning_is_not_compared(traces: Path, tmp_path: Path):
    shutil.copytree(traces / "same", tmp_path / "rotated")
    (path,) = (tmp_path / "rotated").glob("*_rank_0_*")
    path.write_text(path.read_text()[5000:])
    divergence = compared(tmp_path / "rotated").divergence
    assert divergence is not None
    assert (divergence.kind, divergence.ranks) == ("missing rank", (0,))
    assert "beginning" in divergence.detail


def test_a_difference_before_the_end_of_a_cut_trace_is_named_first(traces: Path, tmp_path: Path):
    shutil.copytree(traces / "branch", tmp_path / "cut")
    (path,) = (tmp_path / "cut").glob("*_rank_1_*")
    path.write_text(path.read_text()[: path.stat().st_size * 3 // 4])
    divergence = compared(tmp_path / "cut").divergence
    assert divergence is not None
    assert (divergence.kind, divergence.ranks) == ("branch", (0, 1))


def ended(folder: Path, ends: dict[int, RankEnd]) -> RanksCompared:
    prints: list[RankFingerprint] = []
    rows: list[RankRow] = []
    for process in open_inputs(trace_inputs([str(folder)])).jobs[0].ranks:
        counts = RankCounts()
        prints.append(RankFingerprint(process))
        prints[-1].read(counts)
        rows.append(counts.row(process, None))
    return compare_fingerprints(prints, rows, ends=ends)


def test_a_rank_that_ended_between_two_compiles_is_named_with_the_reason(traces: Path, tmp_path: Path):
    shutil.copytree(traces / "same", tmp_path / "ended")
    (path,) = (tmp_path / "ended").glob("*_rank_0_*")
    records = RECORD.split(path.read_text())
    second = next(n for n, record in enumerate(records) if '"dynamo_start"' in record and '"frame_id": 1' in record)
    path.write_text("".join(records[:second]))
    line = Location("/project/train.py", 9, "main")
    comparison = ended(tmp_path / "ended", {0: RankEnd("exit status 1: ValueError: bad batch", line)})
    assert comparison.divergence is not None
    divergence = comparison.divergence
    assert (divergence.kind, divergence.ranks, divergence.location) == ("unfinished rank", (0,), line)
    assert divergence.sides[0].text.startswith("exit status 1: ValueError: bad batch; its last compile is 0/0")
    assert divergence.subject == "rank 0 ended early"
    assert comparison.ended_early == ()


def test_a_difference_before_the_end_of_a_rank_is_named_first(traces: Path):
    comparison = ended(traces / "branch", {1: RankEnd("SIGKILL")})
    assert comparison.divergence is not None
    assert comparison.divergence.kind == "branch"
    assert comparison.ended_early == ("Rank 1 ended early: SIGKILL",)


def test_the_reasons_are_listed_if_all_ranks_ended(traces: Path):
    comparison = ended(traces / "same", dict.fromkeys((0, 1), RankEnd("SIGKILL")))
    assert comparison.divergence is None
    assert comparison.ended_early == ("Ranks 0 and 1 ended early: SIGKILL",)


def test_figures_of_a_rank_are_those_of_its_records(traces: Path):
    rows = compared(traces / "shape").rows
    assert [(len(row.compile_ids), row.graphs, row.recompiles, row.cache_misses) for row in rows] == [
        (2, 2, 0, 5),
        (3, 3, 1, 8),
    ]


def test_a_rank_has_as_many_breaks_as_its_run_shows(traces: Path):
    repeated = 0
    for folder in sorted(traces.iterdir()):
        job = open_inputs(trace_inputs([str(folder)])).jobs[0]
        for row, process in zip(compare_ranks(job).rows, job.ranks, strict=True):
            run = read_snapshot(TraceRun(process, 1))
            assert row.break_places == len(run.breaks), folder.name
            repeated += row.breaks > row.break_places
    assert repeated
