"""The job that a study varies."""

from __future__ import annotations

from dataclasses import replace

from tcexplore.events import Job

EACH_TIMEOUT = 180.0
"""Seconds for one run of many."""

EACH_TIME_FOR = 1.0
"""Seconds of timing in each of many runs; a verdict may take longer."""


def one_of_many(job: Job) -> Job:
    """A job that ends by itself, without what a study does not look at: code for another device, assembly."""
    config = replace(job.config, target="native", assembly=False)
    return replace(job, time_for=EACH_TIME_FOR, retargetable=False, config=config)
