"""Recompile checks on the regions of a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.regions.remembered_calls import CallState, RememberedCall
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import RecompileAnswer, RegionCreated
from tcexplore.events.commands import RecompileQuery

MAX_REGIONS = 16
"""Number of newest regions to keep: each one keeps its compiled code alive."""

NOT_COMPILED = "No region is compiled yet."
NO_INPUTS = "{name} is guarded by its own state, not by the inputs of a call."
REPLACED = "{name} is no longer available: it was recompiled, or {limit} other regions were compiled since."
AMBIGUOUS = "There are several regions. Put the name of one in front: {names}"

_KINDS_WITH_INPUTS = ("function", "method", "module", "module in place")


@dataclass(slots=True)
class _KeptRegion:
    created: RegionCreated
    compiled: Callable[..., Any]
    graphs: tuple[str, ...] = ()
    last_call: RememberedCall | None = None
    state: CallState | None = None


class RegionQueries:
    """Keeps the newest region of each line of the user's files, without its inputs."""

    def __init__(self, user_files: UserFiles) -> None:
        self._user_files = user_files
        self._kept: dict[int, _KeptRegion] = {}
        self._created: dict[int, RegionCreated] = {}

    def add_region(self, created: RegionCreated, compiled: Callable[..., Any]) -> None:
        """Keep a new region. It replaces an earlier one of the same name and line."""
        self._created[created.region] = created
        if created.kind not in _KINDS_WITH_INPUTS:
            return
        for number, region in list(self._kept.items()):
            if (region.created.name, region.created.location) == (created.name, created.location):
                del self._kept[number]
        self._kept[created.region] = _KeptRegion(created, compiled)
        if len(self._kept) > MAX_REGIONS:
            del self._kept[next(iter(self._kept))]

    def add_compile(self, number: int, graphs: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Remember a call that compiled these graphs."""
        region = self._kept.get(number)
        if region is not None:
            region.graphs = (*region.graphs, *graphs)
            region.last_call, region.state = RememberedCall(Call(args, kwargs)), CallState.current()

    def last_inputs(self, number: int) -> tuple[str, ...]:
        """Return descriptions of the inputs of the last call that compiled."""
        region = self._kept.get(number)
        return region.last_call.texts if region is not None and region.last_call is not None else ()

    def answer(self, query: RecompileQuery) -> RecompileAnswer:
        """Check the region that the query names, or the only one."""
        number, problem = query.region, ""
        if number is None:
            query = self._resolve_name(query)
            number, problem = self._only_region() if query.region is None else (query.region, "")
        region = self._kept.get(number) if number is not None else None
        if region is None or region.last_call is None or region.state is None:
            problem = problem or self._missing_reason(number)
            return RecompileAnswer(number=query.number, inputs=query.inputs, region=number, problem=problem)
        return self._check(region, region.last_call, region.state, query)

    def _check(
        self, region: _KeptRegion, last_call: RememberedCall, state: CallState, query: RecompileQuery
    ) -> RecompileAnswer:
        from tcexplore.capture.recompile_check.recompile_answer import RecompileCheck

        number = region.created.region
        try:
            call = last_call.recreate()
        except EntryError as error:
            return RecompileAnswer(number=query.number, inputs=query.inputs, region=number, problem=error.message)
        check = RecompileCheck(
            region.compiled, (call,), self._user_files, region.graphs, modes=state.restore,
        )  # fmt: skip
        return replace(check.answer(query), region=number)

    def _resolve_name(self, query: RecompileQuery) -> RecompileQuery:
        """Replace a region's name in front of the inputs (`Net: f32[4]`) by the region's number."""
        name, colon, rest = query.inputs[0].partition(":") if query.inputs else ("", "", "")
        numbers = [number for number, region in self._kept.items() if region.created.name == name.strip()]
        inputs = (*filter(None, (rest.strip(),)), *query.inputs[1:])
        return replace(query, region=numbers[-1], inputs=inputs) if colon and numbers else query

    def _only_region(self) -> tuple[int | None, str]:
        regions = [region.created for region in self._kept.values() if region.last_call is not None]
        if len(regions) == 1:
            return regions[0].region, ""
        names = (f"{r.name} (line {r.location.line})" if r.location else r.name for r in regions)
        return None, AMBIGUOUS.format(names=", ".join(names)) if regions else NOT_COMPILED

    def _missing_reason(self, number: int | None) -> str:
        created = self._created.get(-1 if number is None else number)
        if created is None or number in self._kept:
            return NOT_COMPILED
        template = REPLACED if created.kind in _KINDS_WITH_INPUTS else NO_INPUTS
        return template.format(name=created.name, limit=MAX_REGIONS)
