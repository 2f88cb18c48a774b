"""The one vocabulary between worker, session and views: frozen records, with no torch and no textual."""

from __future__ import annotations

from tcexplore.events.base import PROTOCOL, Event, Location
from tcexplore.events.codec import HEADER, LARGEST, ProtocolError, encode
from tcexplore.events.codec import decode as _decode
from tcexplore.events.dynamo import (
    FrameSkipped,
    FxNode,
    GraphBreak,
    GraphCaptured,
    Guard,
    GuardsInstalled,
    OpsOutside,
    Recompiled,
)
from tcexplore.events.inductor import (
    AtenGraph,
    CacheUsed,
    FusionDecision,
    Kernel,
    KernelCall,
    KernelLine,
    Partitioned,
    SavedTensor,
    Wrapper,
)
from tcexplore.events.passes import Hunk, PassRun
from tcexplore.events.results import (
    ACCURACY_VERDICTS,
    Accuracy,
    CallPart,
    CallProfiled,
    Deviation,
    GraphScript,
    KernelCompiled,
    Memory,
)
from tcexplore.events.run import (
    PHASES,
    Config,
    EntryFound,
    FactMissing,
    Failed,
    Finished,
    Job,
    ModulesImported,
    Output,
    PhaseStarted,
    PhaseTimed,
    SourceRead,
    Standby,
)
from tcexplore.events.targets import (
    DeviceAsked,
    KernelAssembled,
    KernelNotAssembled,
    KernelRunnable,
    Resources,
    RooflinePoint,
    Stage,
    TargetLowered,
    TargetSkipped,
    Vectors,
)
from tcexplore.events.text import clean
from tcexplore.events.timing import CallMade, PairsMeasured, TimingEstimate, TimingSkipped

VOCABULARY: dict[str, type] = {
    record.__name__: record
    for record in (
        Accuracy,
        AtenGraph,
        CacheUsed,
        CallMade,
        CallProfiled,
        DeviceAsked,
        EntryFound,
        FactMissing,
        Failed,
        Finished,
        FrameSkipped,
        FusionDecision,
        GraphBreak,
        GraphCaptured,
        GraphScript,
        GuardsInstalled,
        Kernel,
        KernelAssembled,
        KernelCompiled,
        KernelNotAssembled,
        KernelRunnable,
        Memory,
        ModulesImported,
        OpsOutside,
        Output,
        PairsMeasured,
        Partitioned,
        PassRun,
        PhaseStarted,
        PhaseTimed,
        Recompiled,
        RooflinePoint,
        SourceRead,
        Standby,
        TargetLowered,
        TargetSkipped,
        TimingEstimate,
        TimingSkipped,
        Wrapper,
    )
}


def decode(body: bytes) -> Event:
    """The event in one frame's body, its text cleaned. Raises `ProtocolError`."""
    event: Event = _decode(body, VOCABULARY)
    return event


def decode_job(body: bytes) -> Job:
    """The job in one frame's body, its text as the person wrote it. Raises `ProtocolError`."""
    job: Job = _decode(body, {"Job": Job}, text=str)
    return job


__all__ = [
    "ACCURACY_VERDICTS", "HEADER", "LARGEST", "PHASES", "PROTOCOL", "VOCABULARY", "Accuracy", "AtenGraph",
    "CacheUsed", "CallMade", "CallPart", "CallProfiled", "Config", "Deviation", "DeviceAsked", "EntryFound", "Event",
    "FactMissing", "Failed", "Finished", "FrameSkipped", "FusionDecision", "FxNode", "GraphBreak", "GraphCaptured",
    "GraphScript", "Guard", "GuardsInstalled", "Hunk", "Job", "Kernel", "KernelAssembled", "KernelCall",
    "KernelCompiled", "KernelLine", "KernelNotAssembled", "KernelRunnable", "Location", "Memory", "ModulesImported",
    "OpsOutside", "Output", "PairsMeasured", "Partitioned", "PassRun", "PhaseStarted", "PhaseTimed", "ProtocolError",
    "Recompiled", "Resources", "RooflinePoint", "SavedTensor", "SourceRead", "Stage", "Standby", "TargetLowered",
    "TargetSkipped", "TimingEstimate", "TimingSkipped", "Vectors", "Wrapper", "clean", "decode", "decode_job",
    "encode",
]  # fmt: skip
