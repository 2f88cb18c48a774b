"""Every event by its name, and the way from a frame's body to the event in it."""

from __future__ import annotations

from tcexplore.events.artifact_events import (
    ArtifactsLoaded,
    ArtifactsSaved,
    StateKeys,
)
from tcexplore.events.base import (
    Event,
)
from tcexplore.events.codec import decode as _decode
from tcexplore.events.device_events import (
    Autotuned,
    CudaGraphRecorded,
    CudaGraphSkipped,
    DeviceFacts,
    KernelTimed,
)
from tcexplore.events.dynamo_events import (
    EagerOps,
    FrameEntered,
    FrameSkipped,
    GraphBreak,
    GraphCaptured,
    GuardsInstalled,
    Recompiled,
)
from tcexplore.events.fix_events import (
    BreakCosts,
    ChangeChecked,
    ChangeTimed,
    PaddingChecked,
)
from tcexplore.events.inductor_events import (
    AtenGraph,
    CacheLookup,
    FusionDecision,
    Kernel,
    Partitioned,
    ScheduleMade,
    Wrapper,
)
from tcexplore.events.job import Job
from tcexplore.events.pass_events import (
    PassRun,
)
from tcexplore.events.recompile_events import (
    GraphSymbols,
    RecompileAnswer,
)
from tcexplore.events.region_events import (
    BackwardCaptured,
    RegionCalls,
    RegionCompiled,
    RegionCreated,
    RegionGraph,
    ScriptEnded,
)
from tcexplore.events.result_events import (
    Accuracy,
    CallProfiled,
    GraphScript,
    KernelCompiled,
    Memory,
)
from tcexplore.events.run_events import (
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
from tcexplore.events.target_events import (
    DeviceQueried,
    KernelAssembled,
    KernelNotAssembled,
    KernelScript,
    LoopVectorized,
    RooflinePoint,
    TargetLowered,
    TargetSkipped,
)
from tcexplore.events.timing_events import (
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
        BreakCosts,
        CacheLookup,
        CallMade,
        CallProfiled,
        ChangeChecked,
        PaddingChecked,
        ChangeTimed,
        CudaGraphRecorded,
        CudaGraphSkipped,
        DeviceQueried,
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
        RegionGraph,
        GraphScript,
        GuardsInstalled,
        Kernel,
        KernelAssembled,
        KernelCompiled,
        KernelNotAssembled,
        KernelScript,
        LoopVectorized,
        KernelTimed,
        Memory,
        ModulesImported,
        EagerOps,
        Output,
        PairsMeasured,
        Partitioned,
        PassRun,
        PhaseStarted,
        PhaseTimed,
        Recompiled,
        RegionCompiled,
        RegionCreated,
        RegionCalls,
        RooflinePoint,
        ScheduleMade,
        ScriptEnded,
        SourceRead,
        StateKeys,
        GraphSymbols,
        TargetLowered,
        TargetSkipped,
        TimingEstimate,
        TimingSkipped,
        Autotuned,
        RecompileAnswer,
        Wrapper,
    )
}


def decode(body: bytes) -> Event:
    """The event in one frame's body, its text cleaned. Raises `ProtocolError`."""
    event: Event = _decode(body, VOCABULARY)
    return event


def decode_job(body: bytes) -> Job:
    """The job in one frame's body, its text as the user wrote it. Raises `ProtocolError`."""
    job: Job = _decode(body, {"Job": Job}, text=str)
    return job
