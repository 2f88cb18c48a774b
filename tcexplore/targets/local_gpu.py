"""The GPU in this machine as a target: its own properties, beside what the table knows of its kind."""

from __future__ import annotations

from dataclasses import fields, replace

import torch

from tcexplore.targets.device_table import Properties, Target, targets
from tcexplore.targets.target_names import NATIVE


def here() -> tuple[Target, bool] | None:
    """The GPU that torch runs on, and whether the table has its peaks; None without one of a kind that the table knows.

    Occupancy rules are those of the architecture; peaks belong to the very device.
    """
    if not torch.cuda.is_available():
        return None
    real = torch.cuda.get_device_properties()
    kind = (
        str(getattr(real, "gcnArchName", "")).partition(":")[0] if torch.version.hip else real.major * 10 + real.minor
    )
    alike = [target for target in targets().values() if target.arch == kind]
    if not alike:
        return None
    same = next((target for target in alike if target.properties.name == real.name), None)
    base = same or alike[0]
    known = {f.name: getattr(real, f.name, getattr(base.properties, f.name)) for f in fields(Properties)}
    return replace(
        base, key=NATIVE, named="", read_from_hardware=True, properties=Properties(**known)
    ), same is not None
