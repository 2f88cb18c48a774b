"""`tcexplore storm`: inputs that vary, the recompiles that this makes, and what spares them."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable

from tcexplore import events as ev
from tcexplore.cli.file_argument import BadFileError
from tcexplore.cli.limits import USER, blamed
from tcexplore.cli.request import Request
from tcexplore.cli.study_command import refuse, study, write_json
from tcexplore.events.vary_spec import VaryError, parse_all
from tcexplore.studies.recompiles.recompiles_plan import trials
from tcexplore.studies.recompiles.recompiles_result import Trial
from tcexplore.studies.study_runs import Runs


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
        return USER
    if request.json:
        from tcexplore.studies.recompiles.recompiles_json import storm as fields

        write_json(fields(found, found.machine, stopped=bool(found.status)))
    else:
        from tcexplore.report.text.storm import print_storm

        print_storm(found, found.machine, stopped=bool(found.status))
    return found.status or (blamed(found[0].run) if found else 0)
