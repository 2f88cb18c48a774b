"""Kernels of one run for two targets, paired by their computation."""

from __future__ import annotations

from dataclasses import dataclass

from tcexplore import events as ev
from tcexplore.session.code import NATIVE, Code
from tcexplore.session.run_diff import match_kernels
from tcexplore.session.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class TargetPair:
    """One kernel for both targets."""

    left: ev.Kernel | None
    """None if this target has no equivalent kernel."""
    right: ev.Kernel | None
    alternatives: tuple[ev.Kernel, ...] = ()
    """Kernels of the other target that share graph nodes with a kernel without an equivalent."""

    @property
    def item(self) -> ev.Kernel:
        """The kernel on the left, else on the right."""
        kernel = self.left or self.right
        assert kernel is not None
        return kernel


def other_targets(snapshot: Snapshot) -> list[str]:
    """Return the other targets with code, `native` last."""
    known = [code.target for code in snapshot.other_codes if code.kernels]
    return sorted(known, key=lambda target: target == NATIVE)


def target_diff(left: Code, right: Code) -> list[TargetPair]:
    """Return every kernel of both targets by graph, in the order of the left; kernels only on the right come last."""
    result: list[TargetPair] = []
    for graph in dict.fromkeys(kernel.graph for kernel in (*left.kernels, *right.kernels)):
        ours, theirs = ([k for k in code.kernels if k.graph == graph] for code in (left, right))
        pairs = [_pair(change.before, change.after, ours, theirs) for change in match_kernels(ours, theirs)]
        order = {id(kernel): index for index, kernel in enumerate(ours)}
        result += sorted(pairs, key=lambda pair: order.get(id(pair.left), len(order)))
    return result


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
