"""What each of Inductor's passes did to a graph."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore.events.base import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One place of a graph that a pass changed: at line `at` (from 0, of the graph before) the lines `removed` gave
    way to the lines `added`. `above` and `below` are the unchanged lines around. A line is `name = target(args)`."""

    at: int
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRun(Event):
    """Inductor ran one pass over the graph with this compile id.

    `stage` is `pre_grad`, `joint` or `post_grad`; `phase` is `forward` or `backward`. `name` is torch's name of the
    pass, empty for what changed between the passes that have one. `before` and `after` count the graph's nodes;
    without `hunks` the pass changed nothing.
    """

    graph: str
    stage: str
    phase: str
    name: str
    nodes_before: int
    nodes_after: int
    hunks: tuple[Hunk, ...] = ()
    target: str = "native"
