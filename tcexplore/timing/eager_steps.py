"""Eager steps of a script by line and module: their ops are recorded while the script goes on."""

from __future__ import annotations

from typing import Any

from torch.utils import _python_dispatch

from tcexplore.capture.user_files import UserFiles
from tcexplore.events import EagerLinesTimed
from tcexplore.timing.line_timer import OpRecorder, RecordedCalls, scaled_lines


class EagerSteps:
    """Records the ops of eager steps on a CPU. On a GPU, the time of the device needs a profile of it."""

    def __init__(self, user_files: UserFiles) -> None:
        self._recorder = OpRecorder(user_files)
        self._steps = RecordedCalls()
        self._calibrated = False

    def start(self) -> None:
        """Record from here on. Raises `RuntimeError` inside a dispatch mode of the script, which may end any time."""
        if _modes():
            raise RuntimeError("the script has a dispatch mode of its own")
        if not self._calibrated:
            self._recorder.calibrate()
            self._calibrated = True
        self._recorder.__enter__()

    def stop(self) -> None:
        """Record no longer. Raises `RuntimeError` if the script entered a dispatch mode that goes on."""
        if _modes()[-1:] != [self._recorder]:
            self._recorder.recording = False
            self._recorder.modules.__exit__()
            raise RuntimeError("the script entered a dispatch mode in a step")
        self._recorder.__exit__(None, None, None)

    def add_step(self, us: float) -> None:
        """Add the recorded step, which took this time with the recorder."""
        self._steps.add(self._recorder, us)
        self.drop_step()

    def drop_step(self) -> None:
        """Forget the ops of the recorded step."""
        self._recorder.ops.clear()

    def lines(self, step_us: float) -> EagerLinesTimed:
        """Return the typical step, which takes `step_us` without the recorder. Raises `ValueError` without a step."""
        timed, _ = scaled_lines(self._steps.split(step_us), step_us)
        return timed


def _modes() -> list[Any]:
    """Return the dispatch modes of this thread, the innermost last. Raises `AttributeError` if torch does not tell."""
    return list(_python_dispatch._get_current_dispatch_mode_stack())
