"""`tcexplore export PROFILE`: a profile as a Chrome trace with lines as arguments, or as stacks for speedscope."""

from __future__ import annotations

import gzip
import sys
from contextlib import nullcontext
from pathlib import Path

from tcexplore.cli.options import Export, TraceChoice
from tcexplore.cli.profile_command import profile_job
from tcexplore.cli.terminal import print_error, refuse
from tcexplore.cli.trace_choice import TraceChoiceError
from tcexplore.events import clean
from tcexplore.files import NotWrittenError, new_file
from tcexplore.profiles.chrome_trace import write_chrome_trace
from tcexplore.profiles.profile_job import ProfileRun, is_profile_path
from tcexplore.profiles.profile_table import NoProfileError
from tcexplore.profiles.speedscope import write_speedscope
from tcexplore.profiles.step_timeline import modules_of
from tcexplore.traces.trace_content import InputError

NO_PROFILE = "record one with torch.profiler and export_chrome_trace(), and its TORCH_TRACE for lines"


def export_profile(profile: str, export: Export) -> int:
    """Write the profile, print its path and how many events or frames have a line; return the exit status."""
    out = export.perfetto or export.speedscope
    if not is_profile_path(profile):
        return refuse(f"{clean(profile)} is not a profile; {NO_PROFILE}")
    try:
        job = profile_job(TraceChoice((profile,), trace=export.trace))
        rank = next(iter(job.ranks))
        run = ProfileRun(job, rank, 1)
        run.start()
        events = [event for batch in run.batches() for event in batch]
        assert run.joined is not None, "the run is read to its end"
        with new_file(out, force=export.force, keep=(profile,)) as file:
            data, packed = job.ranks[rank].data, out.endswith(".gz")
            with gzip.GzipFile(fileobj=file, mode="wb") if packed else nullcontext(file) as target:
                if export.speedscope:
                    on_lines = write_speedscope(run.joined, target)
                else:
                    on_lines = write_chrome_trace(run.joined, data, modules_of(events), target)
    except (TraceChoiceError, NoProfileError, InputError, NotWrittenError) as error:
        return refuse(str(error))
    sys.stdout.write(f"{clean(str(Path(out)))}\n")
    print_error(f"{on_lines:,} {'frames' if export.speedscope else 'events'} have a line")
    return 0
