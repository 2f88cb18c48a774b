"""Every event by its name, and the way from a frame's body to the event in it."""

from __future__ import annotations

from tcexplore.events.base import (
    Event,
)
from tcexplore.events.codec import decode as _decode
from tcexplore.events.cures import (
    BreaksCosted,
    ChangeJudged,
    ChangeTimed,
    PaddingJudged,
)
from tcexplore.events.device import (
    CudaGraphRecorded,
    CudaGraphSkipped,
    DeviceFacts,
    KernelTimed,
    Tuned,
)
from tcexplore.events.dynamo import (
    FrameEntered,
    FrameSkipped,
    GraphBreak,
    GraphCaptured,
    GuardsInstalled,
    OpsOutside,
    Recompiled,
)
from tcexplore.events.inductor import (
    AtenGraph,
    CacheUsed,
    FusionDecision,
    Kernel,
    Partitioned,
    ScheduleMade,
    Wrapper,
)
from tcexplore.events.job import Job
from tcexplore.events.passes import (
    PassRun,
)
from tcexplore.events.recompile import (
    SymbolsFound,
    WouldRecompile,
)
from tcexplore.events.regions import (
    BackwardCaptured,
    GraphOfRegion,
    RegionCompiled,
    RegionMade,
    RegionSeen,
    ScriptFollowed,
)
from tcexplore.events.results import (
    Accuracy,
    CallProfiled,
    GraphScript,
    KernelCompiled,
    Memory,
)
from tcexplore.events.run import (
    EntryFound,
    FactMissing,
    Failed,
    Finished,
    ModulesImported,
    Output,
    PhaseStarted,
    PhaseTimed,
    SourceRead,
)
from tcexplore.events.ship import (
    ArtifactsLoaded,
    ArtifactsSaved,
    StateKeys,
)
from tcexplore.events.targets import (
    DeviceAsked,
    KernelAssembled,
    KernelNotAssembled,
    KernelRunnable,
    LoopVectorised,
    RooflinePoint,
    TargetLowered,
    TargetSkipped,
)
from tcexplore.events.timing import (
    CallMade,
    PairsMeasured,
    TimingEstimate,
    TimingSkipped,
)

VOCABULARY: dict[str, type] = {
    record.__name__: record
    for record in (
        Accuracy,
        ArtifactsLoaded,
        ArtifactsSaved,
        AtenGraph,
        BreaksCosted,
        CacheUsed,
        CallMade,
        CallProfiled,
        ChangeJudged,
        PaddingJudged,
        ChangeTimed,
        CudaGraphRecorded,
        CudaGraphSkipped,
        DeviceAsked,
        DeviceFacts,
        EntryFound,
        FactMissing,
        Failed,
        Finished,
        FrameEntered,
        FrameSkipped,
        FusionDecision,
        GraphBreak,
        GraphCaptured,
        BackwardCaptured,
        GraphOfRegion,
        GraphScript,
        GuardsInstalled,
        Kernel,
        KernelAssembled,
        KernelCompiled,
        KernelNotAssembled,
        KernelRunnable,
        LoopVectorised,
        KernelTimed,
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
        RegionCompiled,
        RegionMade,
        RegionSeen,
        RooflinePoint,
        ScheduleMade,
        ScriptFollowed,
        SourceRead,
        StateKeys,
        SymbolsFound,
        TargetLowered,
        TargetSkipped,
        TimingEstimate,
        TimingSkipped,
        Tuned,
        WouldRecompile,
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
