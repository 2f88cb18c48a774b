"""The first difference between two ranks: the environment, then compile by compile in the order of the trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import PurePath

from tcexplore import events as ev
from tcexplore.events.python_source import without_comment
from tcexplore.events.rank_events import WARNINGS, DivergenceKind
from tcexplore.session.communication import is_collective, names_collective
from tcexplore.torch_text.dynamo_names import function_name, is_resumed, readable_source, resumed_line
from tcexplore.torch_text.guard_text import cause_of_text, split_check
from tcexplore.traces.branch_conditions import condition_at, condition_between, conditions_around
from tcexplore.traces.environment_differences import Alone, Difference, environment_difference
from tcexplore.traces.graph_differences import GRAPH_ENDS, InductorPair, RankNodes, call_text, graph_difference
from tcexplore.traces.graph_text import CALLS, read_graph
from tcexplore.traces.guard_records import GuardCheck, guard_checks
from tcexplore.traces.rank_fingerprint import CacheTimes, ComparedRecord, RankFingerprint, RecordKey
from tcexplore.traces.rank_normalization import group_names, normalize, rank_pairs
from tcexplore.traces.record_index import BadRecordError
from tcexplore.traces.trace_context import collective_lines

Digests = dict[tuple[str, str], str]

_RANK_NAMES = re.compile(r"rank|device|local_?id", re.I)
_DATA_DEPENDENT = "Data-dependent branching"
_ATEN_GRAPHS = ("aot_forward_graph", "aot_inference_graph", "aot_backward_graph")
_CONFIG_STATE = re.compile(r"\b_config\['\w+'\]\.user_override\b")
"""torch's record of how a setting was set: a compile whose result is in the cache leaves it as it is."""
_VALUE_CHECK = re.compile(r"^(.*?) == (?:(-?\d+)|'([^']*)')$")


def first_difference(
    mine: RankFingerprint, other: RankFingerprint, digests: Digests, times: CacheTimes, notes: list[str]
) -> Difference | None:
    """Return the first difference of `mine` from `other`, a rank that agrees with most.

    One that ranks of a correct program may have, such as of caches, is returned only if there is no other.
    """
    environment = environment_difference(mine, other)
    if environment is not None:
        return environment
    pair = _Pair(mine, other, digests, times, notes)
    tolerable: Difference | None = None
    for order, (my_graph, other_graph) in enumerate(zip_longest(mine.graphs, other.graphs, fillvalue="")):
        difference = pair.compile_difference(my_graph, other_graph)
        if difference is not None and difference.kind not in WARNINGS:
            known = pair.with_condition(difference._replace(order=order), my_graph, other_graph)
            return pair.with_values(known, my_graph, other_graph)
        if difference is not None and tolerable is None:
            tolerable = difference._replace(order=order)
    return tolerable


# ---- one compile


class _Pair:
    """Compares one compile of two ranks."""

    def __init__(
        self, mine: RankFingerprint, other: RankFingerprint, digests: Digests, times: CacheTimes, notes: list[str]
    ) -> None:
        self._mine = mine
        self._other = other
        self._digests = digests
        self._inductor = InductorPair(mine, other, times, notes)
        self._times = times
        self._notes = notes

    def compile_difference(self, my_graph: str, other_graph: str) -> Difference | None:
        """Return the first difference of a compile; the ids differ if the ranks compile different frames."""
        if my_graph != other_graph or self._start(self._mine, my_graph) != self._start(self._other, other_graph):
            return self._other_compile(my_graph, other_graph)
        if self._only_one_restarts(my_graph):
            return None
        checks: tuple[tuple[str, Callable[[str], Difference | None]], ...] = (
            ("recompile_reasons", self._recompiles),
            ("dynamo_graph_break_reason", self._breaks),
            ("dynamo_output_graph", partial(self._graphs, "dynamo_output_graph")),
            ("dynamo_cpp_guards_str", self._guards),
            *((kind, partial(self._graphs, kind)) for kind in _ATEN_GRAPHS),
            ("inductor_collective_schedule", self._inductor.schedules),
            ("cache", self._inductor.caches),
            ("triton_kernel_info", self._inductor.tuning),
            ("inductor_output_code", self._kernels),
        )
        raced = self._times.is_race(self._mine, my_graph) != self._times.is_race(self._other, my_graph)
        for kind, check in checks:
            try:
                differs = self._differs(my_graph, kind) or (kind == "cache" and raced)
                difference = check(my_graph) if differs else None
            except Exception as error:  # noqa: BLE001  a record of another torch may have any form; the others are compared
                note = f"{kind} of {my_graph} cannot be compared: {type(error).__name__}: {error}"
                self._notes.extend([note] if note not in self._notes else [])
                continue
            if difference is not None:
                return difference
        return None

    def _only_one_restarts(self, graph: str) -> bool:
        """Return whether one side compiled what the other traced first and gave up: a cache hit needs no restart."""
        for side, other in ((self._mine, self._other), (self._other, self._mine)):
            kept = other.of(graph, "dynamo_output_graph")
            if kept and graph not in other.attempts and graph in side.attempts:
                text = normalize(other.payload(kept[0]))
                if any(normalize(side.payload(item)) == text for item in side.given_up.get(graph, ())):
                    note = f"{graph}: rank {side.rank} traced it again, rank {other.rank} did not have to."
                    self._notes.extend([note] if note not in self._notes else [])
                    return True
        return False

    def _differs(self, graph: str, kind: str) -> bool:
        """Return whether the records of a kind differ; equal payloads are not read."""
        number = 0
        while True:
            key = RecordKey(graph, kind, number)
            mine, other = self._mine.items.get(key), self._other.items.get(key)
            if mine is None or other is None:
                return mine is not other
            if mine.digest != other.digest and not self._is_equal(key) and not self._is_damaged(key):
                return True
            number += 1

    def _is_equal(self, key: RecordKey) -> bool:
        return self._mine.normal(key, self._digests) == self._other.normal(key, self._digests)

    def _is_damaged(self, key: RecordKey) -> bool:
        """Return whether a record of either side has a wrong checksum, and note it."""
        for side in (self._mine, self._other):
            record = side.items[key].record
            try:
                side.process.index.payload(record.number, record.checksum)
            except BadRecordError:
                note = f"{key.kind} of {key.graph} is not compared: rank {side.rank} has it with a wrong checksum."
                self._notes.extend([note] if note not in self._notes else [])
                return True
        return False

    @staticmethod
    def _start(side: RankFingerprint, graph: str) -> str:
        item = side.items.get(RecordKey(graph, "dynamo_start", 0))
        return item.digest if item else ""

    def _lines(self, graph: str) -> tuple[ev.Location | None, ev.Location | None]:
        return self._mine.user_line(graph), self._other.user_line(graph)

    def _other_compile(self, my_graph: str, other_graph: str) -> Difference:
        """Return why the ranks compile different frames from here on: often a recompile of one of them."""
        for side, graph, mine in ((self._mine, my_graph, True), (self._other, other_graph, False)):
            for item in side.of(graph, "recompile_reasons") if graph else ():
                return self._recompile(side, graph, item, mine=mine)
        texts = [_frame_text(side, graph) for side, graph in ((self._mine, my_graph), (self._other, other_graph))]
        graph = my_graph or other_graph
        return Difference(
            "branch", graph, "the ranks compile different functions", texts[0], texts[1],
            self._mine.user_line(my_graph) if my_graph else None,
            self._other.user_line(other_graph) if other_graph else None,
        )  # fmt: skip

    # ---- recompiles

    def _recompiles(self, graph: str) -> Difference | None:
        mine, other = self._mine.of(graph, "recompile_reasons"), self._other.of(graph, "recompile_reasons")
        if mine:
            return self._recompile(self._mine, graph, mine[0], mine=True)
        return self._recompile(self._other, graph, other[0], mine=False) if other else None

    def _recompile(self, side: RankFingerprint, graph: str, item: ComparedRecord, *, mine: bool) -> Difference:
        """Return the difference that one side recompiles, with the failed guard as its cause."""
        text = side.payload(item).strip().lstrip('["').partition("\n")[0]
        entry, _, reason = text.partition(": ")
        check = split_check(reason.split("\\n")[0])
        cause = cause_of_text(check.code.strip(), grad_enabled=True)
        kind = _RECOMPILE_KINDS.get(cause.kind if cause else "", "guard")
        failed = cause.reason if cause else readable_source(check.code)
        line = self._guard_line(side, entry, cause.name if cause else "") or side.user_line(entry)
        texts = (f"recompiles, as {graph}", f"calls {entry} again" if entry in side.graphs else "does not")
        sides = texts if mine else texts[::-1]
        lines = (line, None) if mine else (None, line)
        difference = Difference(kind, graph, f"one side recompiles: {failed}", *sides, *lines)
        return difference._replace(alone="mine" if mine else "other")

    def _guard_line(self, side: RankFingerprint, graph: str, name: str) -> ev.Location | None:
        """Return the line that reads the guarded input."""
        for item in side.of(graph, "dynamo_output_graph"):
            nodes = self._nodes(side, graph, item)
            wanted = re.sub(r"[^a-zA-Z0-9]+", "_", f"L_{name}_").lower()
            inputs = {node.name for node in nodes if node.op == "placeholder" and node.name.lower() == wanted}
            for node in nodes:
                if inputs & set(node.inputs) and node.location:
                    return node.location
        return None

    # ---- breaks

    def _breaks(self, graph: str) -> Difference | None:
        mine, other = ([*dict.fromkeys(self._break_texts(s, graph))] for s in (self._mine, self._other))
        for a, b in zip_longest(mine, other):
            if a is None or b is None or a[0] != b[0]:
                sides = (a[0] if a else "no graph break", b[0] if b else "no graph break")
                detail = "only one side has this graph break" if a is None or b is None else "the graph breaks differ"
                alone: Alone = "mine" if b is None else "other" if a is None else ""
                return Difference("break", graph, detail, *sides, a[1] if a else None, b[1] if b else None, alone=alone)
        return None

    @staticmethod
    def _break_texts(side: RankFingerprint, graph: str) -> list[tuple[str, ev.Location | None]]:
        breaks = (side.graph_break(item) for item in side.of(graph, "dynamo_graph_break_reason"))
        return [(normalize(known[0]), known[1]) for known in breaks if known is not None]

    # ---- graphs

    def _graphs(self, kind: str, graph: str) -> Difference | None:
        mine, other = self._mine.of(graph, kind), self._other.of(graph, kind)
        for a, b in zip(mine, other, strict=False):
            unequal = graph_difference(self._side(self._mine, graph, a), self._side(self._other, graph, b))
            if unequal is not None:
                if unequal.kind == "branch" and unequal.constants_only and (guard := self._guards(graph)) is not None:
                    return guard._replace(detail=f"{guard.detail}, and a constant of the graph with it")
                lines = [unequal.my_line, unequal.other_line]
                known = (
                    self._collective_line(self._mine, a, unequal.mine),
                    self._collective_line(self._other, b, unequal.other),
                )
                lines = [line or guess for line, guess in zip(known, lines, strict=True)]
                # The line of the function would say nothing of where its code ends.
                ends = [text == GRAPH_ENDS and any(lines) for text in (unequal.mine, unequal.other)]
                users = zip(lines, self._lines(graph), ends, strict=True)
                lines = [line or (None if end else user) for line, user, end in users]
                return unequal._replace(graph=graph, my_line=lines[0], other_line=lines[1])
        if kind == "dynamo_output_graph" and bool(mine) != bool(other):
            return self._one_graph(graph, mine or other, mine=bool(mine))
        return None

    def _one_graph(self, graph: str, items: list[ComparedRecord], *, mine: bool) -> Difference:
        """Return the difference that only one side has ops to compile."""
        side = self._mine if mine else self._other
        first = next((node for node in self._nodes(side, graph, items[0]) if node.op in CALLS), None)
        texts = (call_text(first) if first else "has a graph", "has no ops in this function")
        line = (first.location if first else None) or side.user_line(graph)
        sides, lines = (texts, (line, None)) if mine else (texts[::-1], (None, line))
        difference = Difference("branch", graph, "only one side has ops in this function", *sides, *lines)
        return difference._replace(alone="mine" if mine else "other")

    # ---- the condition behind a difference

    def with_condition(self, difference: Difference, my_graph: str, other_graph: str) -> Difference:
        """Return the difference with the condition by which the ranks go apart, if it is known."""
        if difference.kind not in ("branch", "collective order", "shape", "dtype", "break"):
            return difference
        same_side = self._first_line(self._mine, my_graph) == self._first_line(self._other, other_graph) is not None
        for side, graph in ((self._mine, my_graph), (self._other, other_graph)):
            if not same_side and (place := self._data_dependent(side, graph)) is not None:
                found = condition_at(side.sources.text(place.file), place.line)
                text = (
                    found.text
                    if found is not None and found.line == place.line
                    else without_comment(side.sources.code(place))
                )
                return difference._replace(
                    kind="branch", condition_line=place, condition=text,
                    detail=f"the ranks take different sides of `{text}`, which depends on the values in a tensor",
                )  # fmt: skip
        if difference.kind not in ("branch", "collective order"):
            return difference
        return self._with_statement(difference, my_graph or other_graph)

    def with_values(self, difference: Difference, my_graph: str, other_graph: str) -> Difference:
        """Return the difference with what each side read in the line of its condition, by the guards there.

        A break of one side only has the innermost condition around it whose guards differ.
        """
        line = difference.condition_line
        places = [(line, difference.detail)] if line is not None else list(self._around_break(difference))
        for place, detail in places:
            mine, other = (self._read_at(side, graph, place) for side, graph in
                           ((self._mine, my_graph), (self._other, other_graph)))  # fmt: skip
            if set(mine) != set(other):
                return difference._replace(
                    detail=detail,
                    my_values=tuple(value for value in mine if value not in other),
                    other_values=tuple(value for value in other if value not in mine),
                )
        return difference

    def _around_break(self, difference: Difference) -> Iterator[tuple[ev.Location, str]]:
        """Yield the conditions around a break of one side, and what then differs, the innermost first."""
        line = difference.my_line or difference.other_line
        if difference.kind == "break" and difference.alone and line is not None:
            for condition in reversed(conditions_around(self._mine.sources.text(line.file), line.line)):
                place = ev.Location(line.file, condition.line, line.function)
                yield place, f"{difference.detail}, in `{condition.text}`"

    def _read_at(self, side: RankFingerprint, graph: str, place: ev.Location) -> list[str]:
        """Return the guards of a compile that come from a line."""
        checks = self._checks(side, graph) if graph else []
        wanted = PurePath(place.file).name, place.line
        return [
            readable_source(check.code)
            for check in checks
            if check.place is not None and (PurePath(check.place[0]).name, check.place[1]) == wanted
        ]

    def _with_statement(self, difference: Difference, graph: str) -> Difference:
        sides = ((difference.my_line, difference.mine), (difference.other_line, difference.other))
        lines = [line for line, text in sides if line is not None and text != GRAPH_ENDS]
        defined = [frame.line for side in (self._mine, self._other) if (frame := side.frames.get(graph)) is not None]
        if not lines or any(line.line in defined or line.file != lines[0].file for line in lines):
            return difference  # the line of an op in a library is that of the function
        first, other = lines[0], lines[1].line if len(lines) > 1 else None
        before = difference.before.line if difference.before and difference.before.file == first.file else None
        found = condition_between(self._mine.sources.text(first.file), first.line, other, before)
        if found is None:
            return difference
        detail = found.effect if difference.kind == "branch" else f"{difference.detail}: {found.effect}"
        place = ev.Location(first.file, found.line, first.function)
        return difference._replace(condition_line=place, condition=found.text, detail=detail)

    def _first_line(self, side: RankFingerprint, graph: str) -> ev.Location | None:
        """Return the line of the first op of a compile."""
        items = side.of(graph, "dynamo_output_graph") if graph else []
        nodes = self._nodes(side, graph, items[0]) if items else ()
        return next((node.location for node in nodes if node.op in CALLS and node.location), None)

    @staticmethod
    def _data_dependent(side: RankFingerprint, graph: str) -> ev.Location | None:
        """Return the line of the data-dependent branch after which a resume function goes on."""
        frame = side.frames.get(graph) if graph else None
        line = resumed_line(frame.function) if frame is not None else None
        if frame is None or line is None:
            return None
        for key, item in side.items.items():
            if key.kind == "dynamo_graph_break_reason":
                known = side.graph_break(item)
                if known is not None and known[0].startswith(_DATA_DEPENDENT):
                    at = known[1]
                    if at is not None and (at.file, at.line) == (frame.file, line):
                        return at
        return None

    def _collective_line(self, side: RankFingerprint, item: ComparedRecord, call: str) -> ev.Location | None:
        """Return the user's line of a call of a graph; None if it is no collective, or its line is unknown."""
        graph = item.record.graph
        frame = side.frames.get(graph)
        if frame is None or not names_collective(call) or not side.sources.owns(frame.file):
            return None
        calls = [node for node in self._nodes(side, graph, item) if is_collective(node)]
        lines = collective_lines(side.sources.text(frame.file), frame, calls)
        at = next((n for n, node in enumerate(calls) if call_text(node) == call), None)
        if lines is None or at is None:
            return None
        return ev.Location(frame.file, lines[at], function_name(frame.function))

    def _side(self, side: RankFingerprint, graph: str, item: ComparedRecord) -> RankNodes:
        """Return the nodes of a graph. Below Dynamo, equal code may contain the rank: DTensor shards by it."""
        lowered = item.record.kind != "dynamo_output_graph"
        return RankNodes(self._nodes(side, graph, item), side.rank, lowered or self._reads_rank(side, graph))

    @staticmethod
    def _nodes(side: RankFingerprint, graph: str, item: ComparedRecord) -> tuple[ev.FxNode, ...]:
        def place(file: str, line: int, function: str, code: str) -> ev.Location | None:
            return side.sources.place(file, line, function, code) or side.user_line(graph)

        return read_graph(side.payload(item), place)

    @staticmethod
    def _reads_rank(side: RankFingerprint, graph: str) -> bool:
        """Return whether a guard compares a value that is named after the rank with this rank's number.

        Torch writes the guards at the end of a compile. Until then, any constant may be the rank.
        """
        guards = side.of(graph, "dynamo_cpp_guards_str")
        return (side.growing and not guards) or any(
            (match := _VALUE_CHECK.match(check.code)) is not None
            and match[2] is not None
            and _RANK_NAMES.search(match[1]) is not None
            and int(match[2]) == side.rank
            for item in guards
            for check in guard_checks(side.payload(item))
        )

    def _kernels(self, graph: str) -> Difference | None:
        return self._inductor.kernels(graph, caches_differ=self._differs(graph, "cache"))

    # ---- guards

    def _guards(self, graph: str) -> Difference | None:
        sides = [self._checks(side, graph) for side in (self._mine, self._other)]
        mine, other = ({_guard_key(check): check for check in checks} for checks in sides)
        only_mine = [check for key, check in mine.items() if key not in other]
        only_other = [check for key, check in other.items() if key not in mine]
        same_source = [(a, b) for a in only_mine for b in only_other if (a.kind, a.source) == (b.kind, b.source)]
        paired = [(a, b) for a, b in same_source if not self._follows_rank(a.code, b.code, graph)]
        tolerated = {id(check) for pair in same_source if pair not in paired for check in pair}
        rest = [(a, None) for a in only_mine if id(a) not in tolerated]
        rest_other = [(None, b) for b in only_other if id(b) not in tolerated]
        for a, b in (*paired, *rest, *rest_other):
            texts = tuple(
                f"{check.kind} {readable_source(check.code)}" if check else "no such guard" for check in (a, b)
            )
            place = next((check.place for check in (a, b) if check is not None and check.place), None)
            lines = [self._place(side, place, graph) for side in (self._mine, self._other)]
            return Difference("guard", graph, "a guard differs", texts[0], texts[1], lines[0], lines[1])
        return None

    def _place(self, side: RankFingerprint, place: tuple[str, int, str] | None, graph: str) -> ev.Location | None:
        if place is not None:
            files = {frame.file for frame in (*side.frames.values(), *side.callers.values())}
            file = next((file for file in sorted(files) if file.endswith(place[0]) and side.sources.owns(file)), None)
            if file is not None:
                return ev.Location(file, place[1], place[2])
        return side.user_line(graph)

    def _checks(self, side: RankFingerprint, graph: str) -> list[GuardCheck]:
        items = side.of(graph, "dynamo_cpp_guards_str")
        checks = (check for item in items for check in guard_checks(side.payload(item)))
        return [check for check in checks if not _CONFIG_STATE.search(check.code)]

    def _follows_rank(self, mine: str, other: str, graph: str) -> bool:
        """Return whether both values are the rank's number, or the names of the same process group."""
        a, b = _VALUE_CHECK.match(mine), _VALUE_CHECK.match(other)
        if a is None or b is None or a[1] != b[1]:
            return False
        if a[3] is not None and b[3] is not None:
            groups = [self._groups(side, graph) for side in (self._mine, self._other)]
            return a[3] in groups[0] and b[3] in groups[1] and groups[0].index(a[3]) == groups[1].index(b[3])
        if a[2] is None or b[2] is None or not _RANK_NAMES.search(a[1]):
            return False
        return (int(a[2]), int(b[2])) in rank_pairs(self._mine.rank, self._other.rank)

    @staticmethod
    def _groups(side: RankFingerprint, graph: str) -> list[str]:
        return [name for item in side.of(graph, "dynamo_output_graph") for name in group_names(side.payload(item))]


_RECOMPILE_KINDS: dict[str, DivergenceKind] = {
    "size": "shape", "stride": "shape", "rank": "shape", "condition": "shape", "dtype": "dtype",
}  # fmt: skip
"""Kinds of divergence by kinds of recompile; any other is a guard."""


def _guard_key(check: GuardCheck) -> tuple[str, str]:
    return check.kind, normalize(check.code)


def _frame_text(side: RankFingerprint, graph: str) -> str:
    if not graph:
        return "compiles nothing more"
    frame = side.frames.get(graph)
    if frame is None:
        return f"compiles {graph}"
    rest = ", the rest after a graph break" if is_resumed(frame.function) else ""
    return f"compiles {graph}: {function_name(frame.function)} ({frame.file.rpartition('/')[2]}:{frame.line}){rest}"
