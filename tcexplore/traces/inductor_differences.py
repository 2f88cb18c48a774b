"""Differences of Inductor's work on equal graphs: schedules of collectives, caches, autotuning, kernels."""

from __future__ import annotations

from tcexplore import events as ev
from tcexplore.traces.environment_differences import Difference
from tcexplore.traces.graph_text import read_graph
from tcexplore.traces.inductor_records import key_parts, tuned_configuration
from tcexplore.traces.rank_prints import CacheTimes, ComparedRecord, RankPrint, kernel_choices
from tcexplore.traces.record_index import decode_json
from tcexplore.traces.wrapper_text import CommentBlock, read_wrapper

_RACE_NOTE = "Some ranks found in the cache what other ranks had just written."


class InductorPair:
    """Compares what Inductor did in one compile of two ranks."""

    def __init__(self, mine: RankPrint, other: RankPrint, times: CacheTimes, notes: list[str]) -> None:
        self._mine = mine
        self._other = other
        self._times = times
        self._notes = notes

    def schedules(self, graph: str) -> Difference | None:
        mine, other = (self._schedule(side, graph) for side in (self._mine, self._other))
        if not mine or not other:
            return None  # a graph from a cache has no schedule
        for number in range(max(len(mine), len(other))):
            a, b = (ops[number] if number < len(ops) else "no further collective" for ops in (mine, other))
            if a != b:
                detail = f"collective {number + 1} of the schedule differs"
                return Difference("collective order", graph, detail, a, b, *_lines(self._mine, self._other, graph))
        return None

    @staticmethod
    def _schedule(side: RankPrint, graph: str) -> list[str]:
        ops: list[str] = []
        for item in side.of(graph, "inductor_collective_schedule"):
            try:
                schedule = decode_json(side.payload(item) or "[]")
            except ValueError:
                continue
            ops += [str(op) for op in schedule] if isinstance(schedule, list) else []
        return ops

    def caches(self, graph: str) -> Difference | None:
        """Compare the outcomes of lookups; a hit of what another rank has just written counts as a miss."""
        races = [self._times.is_race(side, graph) for side in (self._mine, self._other)]
        if any(races) and _RACE_NOTE not in self._notes:
            self._notes.append(_RACE_NOTE)
        mine, other = self._mine.of(graph, "cache"), self._other.of(graph, "cache")
        for number in range(max(len(mine), len(other))):
            a, b = (items[number] if number < len(items) else None for items in (mine, other))
            outcomes = [_outcome(item, race=race) for item, race in zip((a, b), races, strict=True)]
            if outcomes[0] == outcomes[1]:
                continue
            if any(races) and "hit" not in outcomes:
                return None
            detail = self._key_difference(a, b) or "one side has the result in its cache"
            texts = [item.record.kind.replace("_", " ") if item else "no lookup" for item in (a, b)]
            return Difference("cache", graph, detail, texts[0], texts[1], *_lines(self._mine, self._other, graph))
        return None

    def _key_difference(self, a: ComparedRecord | None, b: ComparedRecord | None) -> str:
        if a is None or b is None:
            return ""
        mine, other = key_parts(self._mine.json(a)), key_parts(self._other.json(b))
        names = [name for name in mine if name in other and mine[name] != other[name]]
        return f"the cache keys differ in {', '.join(names[:4])}" if names and len(names) <= len(mine) // 2 else ""

    def tuning(self, graph: str) -> Difference | None:
        mine, other = (self._configurations(side, graph) for side in (self._mine, self._other))
        for name, winner in mine.items():
            if name in other and other[name] != winner:
                detail = f"autotuning of {name} chose another configuration"
                lines = self._kernel_lines(graph, (name,))
                return Difference("autotuning", graph, detail, winner, other[name], *lines)
        return None

    @staticmethod
    def _configurations(side: RankPrint, graph: str) -> dict[str, str]:
        return {
            str(name): winner
            for item in side.of(graph, "triton_kernel_info")
            for name, kernel in side.json(item).items()
            if isinstance(kernel, dict) and (winner := tuned_configuration(kernel))
        }

    def kernels(self, graph: str, *, caches_differ: bool) -> Difference | None:
        """Compare the generated kernels and library calls, if both sides generated them."""
        if caches_differ:
            return None
        pairs = zip(
            self._mine.of(graph, "inductor_output_code"), self._other.of(graph, "inductor_output_code"), strict=False
        )
        for a, b in pairs:
            mine, other = (kernel_choices(side.payload(item)) for side, item in ((self._mine, a), (self._other, b)))
            for x, y in zip([*mine, ""], [*other, ""], strict=False):
                if x != y:
                    detail = "autotuning chose other kernels or configurations for the same graph"
                    texts = (x or "no further kernel", y or "no further kernel")
                    return Difference("autotuning", graph, detail, *texts, *self._kernel_lines(graph, (x, y)))
        return None

    def _kernel_lines(self, graph: str, names: tuple[str, ...]) -> tuple[ev.Location | None, ev.Location | None]:
        """Return, for each side, the user's line of the first op in one of these kernels or calls."""
        lines = [_op_line(side, graph, names) for side in (self._mine, self._other)]
        users = _lines(self._mine, self._other, graph)
        return lines[0] or lines[1] or users[0], lines[1] or lines[0] or users[1]


def _op_line(side: RankPrint, graph: str, names: tuple[str, ...]) -> ev.Location | None:
    """Return the line of the first op that one of these kernels or calls computes, by Inductor's comments."""
    sources: set[str] = set()
    for item in side.of(graph, "inductor_output_code"):
        wrapper = read_wrapper(side.payload(item))
        for call in wrapper.calls:
            name = next((name for name in names if name and call.name.startswith(name)), None)
            if name is not None:
                sources.update(call.comment.source_nodes, wrapper.comments.get(name, CommentBlock()).source_nodes)
    for item in side.of(graph, "dynamo_output_graph") if sources else ():
        for node in read_graph(side.payload(item), side.sources.place):
            if node.name in sources and node.location is not None:
                return node.location
    return None


def _outcome(item: ComparedRecord | None, *, race: bool) -> str:
    if item is None:
        return ""
    outcome = item.record.kind.rpartition("_")[2]
    return "miss" if race and outcome == "hit" else outcome


def _lines(mine: RankPrint, other: RankPrint, graph: str) -> tuple[ev.Location | None, ev.Location | None]:
    return mine.user_line(graph), other.user_line(graph)
