"""Snapshots with changed generated code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcexplore.session import Snapshot


def with_code(run: Snapshot, **fields: Any) -> Snapshot:
    """Return a run with changed fields in the code for the target in view."""
    return replace(run, codes=(replace(run.code, **fields), *run.other_codes))
