"""`tcexplore storm`: inputs that vary, the recompiles that this makes, and what spares them."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable

from tcexplore import events as ev
from tcexplore.cli.limits import PERSON, blamed
from tcexplore.cli.request import Request
from tcexplore.cli.studying import refuse, study, write_json
from tcexplore.cli.target import BadFileError
from tcexplore.events.vary import VaryError, parse_all
from tcexplore.session.storm import Trial
from tcexplore.study.runs import Runs
from tcexplore.study.storm import trials


def storm(request: Request) -> int:
    """Run the storm and every treatment, and print them; returns the exit status, that of the storm itself."""

    def going(job: ev.Job, runs: Runs, say: Callable[[str], None]) -> AsyncGenerator[Trial, None]:
        return trials(job, runs, say, request.timeout, request.study.buckets)

    try:
        parse_all(request.config.vary)
        found = study(request, going)
    except BadFileError as error:
        return refuse(error)
    except VaryError as error:
        sys.stderr.write(f"tcexplore storm: --vary {error}\n")
        return PERSON
    if request.json:
        from tcexplore.report.json_storm import storm as fields

        write_json(fields(found, found.machine, stopped=bool(found.status)))
    else:
        from tcexplore.report.text.storm import print_storm

        print_storm(found, found.machine, stopped=bool(found.status))
    return found.status or (blamed(found[0].run) if found else 0)
