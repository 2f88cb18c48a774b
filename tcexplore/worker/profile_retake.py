"""The second profile of a call, if the first one contradicts the timing."""

from __future__ import annotations

from collections.abc import Callable

from tcexplore.events import Event, TimingEstimate
from tcexplore.worker.event_recorder import EventRecorder


class ProfileRetake:
    """Profiles the call once more, between two timed pairs, if profile or break costs disagree with the timing.

    The profile takes place before the timing: other processes may have slowed down either of them.
    """

    def __init__(self, recorder: EventRecorder, profile: Callable[[], None], pause: Callable[[float], bool]) -> None:
        self._recorder = recorder
        self._profile = profile
        self._pause = pause
        self._due = False
        self._retaken = False

    def emit(self, event: Event) -> None:
        """Send an event of the timing, and compare an estimate with the profile."""
        self._recorder.emit(event)
        if isinstance(event, TimingEstimate) and event.verdict != "measuring" and not self._retaken:
            self._due = self._recorder.contradicts(event)

    def pause(self, seconds: float) -> bool:
        """Pause for `seconds`, and return whether other work was done, such as another profile."""
        worked = self._pause(seconds)
        if not self._due:
            return worked
        self._due, self._retaken = False, True
        self._profile()
        return True
