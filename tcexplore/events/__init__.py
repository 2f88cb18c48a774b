"""Frozen records between worker, session and documents; imports neither torch nor Textual.

An event is a subclass of `Event` in a `*_events` module. Nothing else lists it: the wire format finds it by its name.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tcexplore.events.base import PROTOCOL as PROTOCOL
from tcexplore.events.base import Event as Event
from tcexplore.events.base import Location as Location
from tcexplore.events.base import clean as clean
from tcexplore.events.config import Config as Config

if TYPE_CHECKING:
    from tcexplore.events.captured_events import *
    from tcexplore.events.dynamo_events import *
    from tcexplore.events.inductor_events import *
    from tcexplore.events.job import BranchTest as BranchTest
    from tcexplore.events.job import Job as Job
    from tcexplore.events.job import Span as Span
    from tcexplore.events.job import StepSide as StepSide
    from tcexplore.events.numerics_events import *
    from tcexplore.events.profile_events import *
    from tcexplore.events.rank_events import *
    from tcexplore.events.recompile_events import *
    from tcexplore.events.result_events import *
    from tcexplore.events.run_events import *
    from tcexplore.events.target_events import *
    from tcexplore.events.timing_events import *
else:

    def __getattr__(name: str) -> Any:
        """Import the event modules for the first name that only they define.

        Creating their classes takes 30 ms, and the first frame of the app needs none of them.
        """
        if not name.startswith("_"):
            event_types()
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def event_types() -> dict[str, type[Event]]:
    """Import `job` and every event module into this package, and return the event classes by name."""
    from pkgutil import iter_modules  # not imported before the first frame

    for info in iter_modules(__path__):
        if info.name == "job" or info.name.endswith("_events"):
            module = import_module(f"{__name__}.{info.name}")
            globals().update({name: value for name, value in vars(module).items() if not name.startswith("_")})
    return Event.types


def decode(body: bytes) -> Event:
    """Return the event in a frame's body, with its text cleaned. Raise `ProtocolError` for anything else."""
    from tcexplore.events.codec import decode as decode_record

    event: Event = decode_record(body, dict(event_types()))
    return event


def decode_job(body: bytes) -> Job:
    """Return the job in a frame's body, with its text unchanged. Raise `ProtocolError` for anything else."""
    from tcexplore.events.codec import decode as decode_record
    from tcexplore.events.job import Job

    job: Job = decode_record(body, {"Job": Job}, text=str)
    return job
