"""The kernels of one run on two devices, paired by what they compute."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.session.code import NATIVE, Code
from tcexplore.session.run_diff import match_kernels
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class TargetPair:
    """One kernel on both devices; None where a device has none that computes that. `instead` are then the kernels of
    that device that share nodes of the graph with it."""

    left: ev.Kernel | None
    right: ev.Kernel | None
    alternatives: tuple[ev.Kernel, ...] = ()

    @property
    def item(self) -> ev.Kernel:
        """It on the left, or on the only side that has it."""
        found = self.left or self.right
        assert found is not None
        return found


def other_targets(snapshot: Snapshot) -> list[str]:
    """The devices beside the one in view that the run has code for, the one in the machine last."""
    known = [code.target for code in snapshot.other_codes if code.kernels]
    return sorted(known, key=lambda target: target == NATIVE)


def target_diff(left: Code, right: Code) -> list[TargetPair]:
    """Every kernel of both, graph by graph, in the order of the left; what only the right has comes last."""
    found: list[TargetPair] = []
    for graph in dict.fromkeys(kernel.graph for kernel in (*left.kernels, *right.kernels)):
        ours, theirs = ([k for k in code.kernels if k.graph == graph] for code in (left, right))
        pairs = [_pair(change.before, change.after, ours, theirs) for change in match_kernels(ours, theirs)]
        order = {id(kernel): index for index, kernel in enumerate(ours)}
        found += sorted(pairs, key=lambda pair: order.get(id(pair.left), len(order)))
    return found


def _pair(
    left: ev.Kernel | None, right: ev.Kernel | None, ours: list[ev.Kernel], theirs: list[ev.Kernel]
) -> TargetPair:
    if left is not None and right is not None:
        return TargetPair(left, right)
    alone, others_ = (left, theirs) if left is not None else (right, ours)
    assert alone is not None
    nodes = set(alone.nodes)
    shared = (k for k in others_ if k.phase == alone.phase and nodes.intersection(k.nodes))
    return TargetPair(left, right, tuple(shared))
