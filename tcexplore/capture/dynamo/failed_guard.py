"""The guard of a cache entry that failed: its cause, both values, and the user's line."""

from __future__ import annotations

from typing import Any

import torch

from tcexplore.capture.dynamo.recompile_kinds import kind_of_values, origin_of
from tcexplore.capture.dynamo.recompile_text import Cause, cause_of_text, cause_of_values
from tcexplore.capture.fx.fx_text import readable_source
from tcexplore.capture.guards.guard_locations import place_of
from tcexplore.capture.guards.guard_text import split_check
from tcexplore.capture.guards.guard_values import compared
from tcexplore.capture.user_files import UserFiles
from tcexplore.events import Location, Recompiled


class FailedGuards:
    """Reads what torch says of a failed guard, for places in the files of `project`."""

    def __init__(self, project: UserFiles) -> None:
        self._project = project

    def read(self, said: str, manager: Any, code: Any, scope: Any, graph: str, of: str) -> Recompiled:
        """The record of a guard that failed for the locals `scope` of a frame with this `code`.

        `said` is torch's sentence, `manager` its guard manager of the entry `of`; `graph` is what is compiled instead.
        """
        text = said.removeprefix(f"{of}: ").split("\nUser stack trace:")[0]
        failed = split_check(text)
        cause = cause_of_text(failed.code.strip(), grad_enabled=torch.is_grad_enabled()) or _by_value(
            manager, scope, failed.code
        )
        return Recompiled(
            graph=graph,
            of=of,
            failed_guard=readable_source(failed.code),
            reason=cause.reason,
            old=cause.old,
            new=cause.new,
            location=self._location(manager, cause, failed.place, code),
            kind=cause.kind,
            what=cause.what,
            dim=cause.dim,
            origin=origin_of(failed.code, cause.what, code),
        )

    def _location(self, manager: Any, cause: Cause, place: tuple[str, int, str] | None, code: Any) -> Location | None:
        """The line behind the guard, else the function that was compiled."""
        found = place_of(manager, readable_source(cause.what)) or (place and self._project.find(*place))
        if found or not self._project.owns(code.co_filename):
            return found or None
        return self._project.location(code.co_filename, code.co_firstlineno, code.co_name)


def _by_value(manager: Any, scope: Any, code: str) -> Cause:
    root = getattr(manager, "global_scope", None) or {}
    names = {**(getattr(manager, "closure_vars", None) or {}), "G": root.get("G", {}), "L": scope}
    values = compared(code, {**names, **dict(scope)})
    return cause_of_values(values, readable_source(code), kind_of_values(code, values))
