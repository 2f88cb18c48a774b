"""The float64 run that both sides are judged by, or why there is none."""

from __future__ import annotations

import math

import torch

from tcexplore.accuracy.compared_calls import Subject
from tcexplore.accuracy.float64_copy import Double, NoDoubleError, double_by_default
from tcexplore.accuracy.observation import Observed, observe
from tcexplore.accuracy.op_trace import Path, ops_of, parted
from tcexplore.accuracy.tensor_comparison import rms
from tcexplore.capture.entry.entry import Call

SLOWER_IN_DOUBLE = {"cpu": 4, "cuda": 64}
"""How many times as long a float64 call may take as an eager one; GPUs that are made for drawing have 1/64."""

PATIENCE_S = 20.0
"""No float64 call is begun that would, by that, take longer."""


class Reference:
    """Float64 runs of a subject's calls; `reason` says why there is none, as soon as that is known."""

    def __init__(self, subject: Subject) -> None:
        self.reason = ""
        self._subject = subject
        self._double: Double | None = None
        try:
            self._double = Double(subject)
        except NoDoubleError as error:
            self.reason = str(error)

    def of(self, call: Call, eager_s: float, eager: Observed) -> Observed | None:
        """The float64 run of a call that took `eager_s` seconds in eager and gave `eager`; None where there is none."""
        if self._double is None:
            return None
        device = next((tensor.device.type for tensor in eager.outputs.values()), "cpu")
        if eager_s * SLOWER_IN_DOUBLE.get(device, 4) > PATIENCE_S:
            self.reason = "a float64 run would take too long"
            return None
        path = Path(widen=True)
        try:
            with double_by_default(), path:
                exact = observe(self._subject, self._double.function, Double.call(call), self._double.module)
        except Exception as error:
            said = str(error).partition("\n")[0]
            self.reason, self._double = f"it does not run in float64: {type(error).__name__}: {said}", None
            return None
        if unusable := self._unusable(call, eager, exact, path.ops):
            self.reason = unusable
            return None
        return exact

    def _unusable(self, call: Call, eager: Observed, exact: Observed, ops: list[str]) -> str:
        """Why a float64 run is none to judge by: another dtype, other random numbers, or another path.

        Ops may differ where what they give does not (torch has several for attention), so paths are only compared
        where the values are far apart.
        """
        floats = {name: tensor for name, tensor in eager.outputs.items() if tensor.is_floating_point()}
        wide = {name: tensor for name, tensor in exact.outputs.items() if tensor.dtype is torch.float64}
        both = floats.keys() & wide.keys()
        if floats and not both:
            return "the program sets dtypes of its own: its float64 run is none"
        if all(_near(floats[name], wide[name]) for name in both):
            return ""
        if eager.drew:
            return "its float64 run draws other random numbers"
        subject = self._subject
        own = ops_of(lambda: observe(subject, subject.eager, call, subject.module))
        where = parted(own, ops)
        return where and f"its float64 run takes another path: {where}"


def _near(found: torch.Tensor, exact: torch.Tensor) -> bool:
    if found.shape != exact.shape:
        return False
    return rms(found.to(torch.float64) - exact) <= math.sqrt(torch.finfo(found.dtype).eps) * rms(exact)
