"""Faster or not, by how much, and from how many calls on."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from tcexplore import events as ev
from tcexplore.documents import device_text as device_words
from tcexplore.documents.calls_text import calls
from tcexplore.documents.recommendation_text import advice, reservation
from tcexplore.quantities import count, duration
from tcexplore.report.text.layout import columns, indented
from tcexplore.report.text.verdict import VERDICTS
from tcexplore.session import Snapshot
from tcexplore.session.economics import Economics, economics


def timing(snapshot: Snapshot) -> Iterable[RenderableType]:
    estimate, costs = snapshot.timing, economics(snapshot)
    if estimate is not None:
        yield indented(_verdict(estimate))
        yield from columns(_sides(estimate), right=(1,), by=4)
        if said := device_words.apart(estimate):
            yield indented(said + (": launch-bound" if device_words.launch_bound(estimate) else ""), by=4)
        yield indented(_conditions(estimate), "dim", by=4)
    elif snapshot.timing_skipped:
        yield indented(f"not timed: {snapshot.timing_skipped}")
    cost = _cost(costs)
    if cost:
        yield indented(cost, by=4)
    for said in calls(snapshot):
        yield indented(said, "dim", by=4)
    if said := advice(snapshot):
        yield indented(said, "bold", by=4)
    if said := reservation(snapshot):
        yield indented(said, "dim", by=4)
    for note in estimate.notes if estimate else ():
        yield indented(f"note: {note}", "yellow", by=4)


def _verdict(estimate: ev.TimingEstimate) -> Text:
    known = estimate.verdict not in ("undecided", "measuring")
    figure = f"  {estimate.speedup:.2f}×" if known else ""
    interval = f"  95 % interval [{estimate.low:.2f}, {estimate.high:.2f}]"
    return Text.assemble((estimate.verdict, VERDICTS.get(estimate.verdict, "")), figure, interval)


def _sides(estimate: ev.TimingEstimate) -> list[list[str]]:
    sides = (
        ("eager", estimate.eager_us, estimate.eager_spread_us),
        ("compiled", estimate.compiled_us, estimate.compiled_spread_us),
    )
    return [[name, duration(us / 1e6), f"± {duration(spread / 1e6)}"] for name, us, spread in sides]


def _conditions(estimate: ev.TimingEstimate) -> str:
    what = "forward and backward" if estimate.train else "forward"
    calls = f" of {count(estimate.calls, 'call')}" if estimate.calls > 1 else ""
    pairs = count(estimate.pairs, "interleaved pair")
    noise = f"noise floor {100 * estimate.noise_floor:.1f} %"
    return f"{what}{calls}, {pairs}, {noise}, {estimate.device}, {count(estimate.threads, 'thread')}"


def _cost(costs: Economics) -> str:
    said = []
    if costs.first_call_s is not None:
        said.append(f"first call {duration(costs.first_call_s)}")
    if costs.compile_s is not None:
        said.append(f"compiling {duration(costs.compile_s)}")
    if costs.break_even_calls is not None:
        said.append(f"pays off after {count(costs.break_even_calls, 'call')}")
    return ", ".join(said)
