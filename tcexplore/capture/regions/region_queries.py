"""Recompile checks on the regions of a script, which are kept for as long as they are current."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcexplore.capture.entry.entry import Call, EntryError
from tcexplore.capture.regions.call_arguments import Remembered
from tcexplore.capture.regions.call_state import CallState
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import RecompileAnswer, RegionCreated
from tcexplore.events.commands import RecompileQuery

MOST = 16
"""Regions that are kept, the newest: what they compiled stays alive with them."""

NOTHING = "Nothing that could be asked is compiled yet."
OTHER = "What {name} depends on is its own state, and not the inputs of a call."
GONE = "{name} was made anew in the same place, or {most} others were made since: what it compiled is let go."
ASK_ONE = "There is more than one region: say which, with its name in front. {names}"

_INPUTS = ("function", "method", "module", "module in place")


@dataclass(slots=True)
class _Known:
    made: RegionCreated
    compiled: Callable[..., Any]
    dynamic: bool | None
    raises: bool
    graphs: tuple[str, ...] = ()
    last: Remembered | None = None
    state: CallState | None = None


class RegionQueries:
    """Holds on to the newest region that was made on each of the user's lines, and to no input of theirs."""

    def __init__(self, project: UserFiles) -> None:
        self._project = project
        self._regions: dict[int, _Known] = {}
        self._names: dict[int, RegionCreated] = {}

    def made(self, made: RegionCreated, compiled: Callable[..., Any], context: Any) -> None:
        """A region came to be; it takes the place of one that was made there before."""
        self._names[made.region] = made
        if made.kind not in _INPUTS:
            return
        for number, known in list(self._regions.items()):
            if (known.made.name, known.made.location) == (made.name, made.location):
                del self._regions[number]
        dynamic, raises = getattr(context, "_dynamic", None), bool(getattr(context, "fullgraph", False))
        self._regions[made.region] = _Known(made, compiled, dynamic, raises)
        if len(self._regions) > MOST:
            del self._regions[next(iter(self._regions))]

    def compiled(self, region: int, graphs: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call compiled these graphs."""
        known = self._regions.get(region)
        if known is not None:
            known.graphs = (*known.graphs, *graphs)
            known.last, known.state = Remembered(Call(args, kwargs)), CallState.now()

    def inputs(self, region: int) -> tuple[str, ...]:
        """The inputs of the call that compiled last, as texts."""
        known = self._regions.get(region)
        return known.last.texts if known is not None and known.last is not None else ()

    def answer(self, question: RecompileQuery) -> RecompileAnswer:
        """The answer of the region that is asked, else of the only one."""
        number, problem = question.region, ""
        if number is None:
            question = self._by_name(question)
            number, problem = self._only() if question.region is None else (question.region, "")
        known = self._regions.get(number) if number is not None else None
        if known is None or known.last is None or known.state is None:
            said = problem or self._why_not(number)
            return RecompileAnswer(number=question.number, inputs=question.inputs, region=number, problem=said)
        return self._asked(known, known.last, known.state, question)

    def _asked(self, known: _Known, last: Remembered, state: CallState, question: RecompileQuery) -> RecompileAnswer:
        from tcexplore.capture.recompile_check.recompile_answer import RecompileCheck

        try:
            call = last.call()
        except EntryError as error:
            return RecompileAnswer(
                number=question.number, inputs=question.inputs, region=known.made.region, problem=error.message
            )
        would = RecompileCheck(
            known.compiled, (call,), self._project, known.graphs,
            around=state.again, dynamic=known.dynamic, raises=known.raises,
        )  # fmt: skip
        return replace(would.answer(question), region=known.made.region)

    def _by_name(self, question: RecompileQuery) -> RecompileQuery:
        """A question whose inputs begin with a region's name: `Net: f32[4]`."""
        name, colon, rest = question.inputs[0].partition(":") if question.inputs else ("", "", "")
        found = [number for number, known in self._regions.items() if known.made.name == name.strip()]
        inputs = (*filter(None, (rest.strip(),)), *question.inputs[1:])
        return replace(question, region=found[-1], inputs=inputs) if colon and found else question

    def _only(self) -> tuple[int | None, str]:
        asked = [known.made for known in self._regions.values() if known.last is not None]
        if len(asked) == 1:
            return asked[0].region, ""
        return None, ASK_ONE.format(names=", ".join(self._listed(asked))) if asked else NOTHING

    def _listed(self, made: Sequence[RegionCreated]) -> Iterator[str]:
        for one in made:
            yield f"{one.name} (line {one.location.line})" if one.location else one.name

    def _why_not(self, number: int | None) -> str:
        made = self._names.get(-1 if number is None else number)
        if made is None or number in self._regions:
            return NOTHING
        return (OTHER if made.kind not in _INPUTS else GONE).format(name=made.name, most=MOST)
