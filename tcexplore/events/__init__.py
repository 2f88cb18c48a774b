"""The one vocabulary between worker, session and views: frozen records, with no torch and no textual."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tcexplore.events.base import PROTOCOL, Event, Location
from tcexplore.events.clean_text import clean
from tcexplore.events.job import Config, Job, Standby

if TYPE_CHECKING:
    from tcexplore.events.artifact_events import ArtifactsLoaded, ArtifactsSaved, StateKeys
    from tcexplore.events.codec import HEADER, LARGEST, ProtocolError, encode
    from tcexplore.events.device_events import (
        Autotuned,
        CudaGraphRecorded,
        CudaGraphSkipped,
        DeviceFacts,
        KernelTimed,
        TuningChoice,
    )
    from tcexplore.events.dynamo_events import (
        RECOMPILE_KINDS,
        EagerOps,
        FrameEntered,
        FrameSkipped,
        FxNode,
        GraphBreak,
        GraphCaptured,
        Guard,
        GuardsInstalled,
        Recompiled,
    )
    from tcexplore.events.fix_events import (
        BreakCost,
        BreakCosts,
        ChangeChecked,
        ChangeTimed,
        PaddingChecked,
        PaddingVerdict,
    )
    from tcexplore.events.inductor_events import (
        AtenGraph,
        CacheLookup,
        FusionDecision,
        Kernel,
        KernelCall,
        KernelLine,
        Partitioned,
        SavedTensor,
        ScheduleMade,
        SchedulerNode,
        Wrapper,
    )
    from tcexplore.events.pass_events import Hunk, PassRun
    from tcexplore.events.recompile_events import (
        ANSWER_VERDICTS,
        EntryAnswer,
        FrameAnswer,
        GraphSymbols,
        RecompileAnswer,
        Specialization,
        Symbol,
        SymbolCondition,
        SymbolSource,
        ZeroOneSpecialization,
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
        ACCURACY_VERDICTS,
        Accuracy,
        AccuracyVerdict,
        CallPart,
        CallProfiled,
        Deviation,
        GraphScript,
        KernelCompiled,
        Memory,
    )
    from tcexplore.events.run_events import (
        PHASES,
        Blame,
        EntryFound,
        FactMissing,
        Failed,
        Finished,
        ModulesImported,
        Output,
        Phase,
        PhaseStarted,
        PhaseTimed,
        RunStage,
        SourceRead,
    )
    from tcexplore.events.target_events import (
        DeviceQueried,
        KernelAssembled,
        KernelNotAssembled,
        KernelResources,
        KernelScript,
        KernelStage,
        LoopVectorized,
        RooflinePoint,
        TargetLowered,
        TargetSkipped,
        Vectors,
    )
    from tcexplore.events.timing_events import CallMade, PairsMeasured, TimingEstimate, TimingSkipped, TimingVerdict
    from tcexplore.events.vocabulary import VOCABULARY, decode, decode_job
else:
    # Making a record's class takes 0.5 ms, and there are some fifty: the first frame does not wait for those that only
    # a run needs.
    _LATER = (
        "run_events",
        "timing_events",
        "fix_events",
        "dynamo_events",
        "inductor_events",
        "pass_events",
        "recompile_events",
        "result_events",
        "region_events",
        "artifact_events",
        "target_events",
        "device_events",
        "codec",
        "vocabulary",
    )

    def __getattr__(name: str) -> Any:
        """A name of one of the later modules; all are imported with the first name that is asked for."""
        if not name.startswith("_"):
            for module in (import_module(f"{__name__}.{later}") for later in _LATER):
                globals().update({known: vars(module)[known] for known in __all__ if known in vars(module)})
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ACCURACY_VERDICTS",
    "ANSWER_VERDICTS",
    "HEADER",
    "LARGEST",
    "PHASES",
    "PROTOCOL",
    "RECOMPILE_KINDS",
    "VOCABULARY",
    "Accuracy",
    "AccuracyVerdict",
    "ArtifactsLoaded",
    "ArtifactsSaved",
    "AtenGraph",
    "Autotuned",
    "BackwardCaptured",
    "Blame",
    "BreakCost",
    "BreakCosts",
    "CacheLookup",
    "CallMade",
    "CallPart",
    "CallProfiled",
    "ChangeChecked",
    "ChangeTimed",
    "Config",
    "CudaGraphRecorded",
    "CudaGraphSkipped",
    "Deviation",
    "DeviceFacts",
    "DeviceQueried",
    "EagerOps",
    "EntryAnswer",
    "EntryFound",
    "Event",
    "FactMissing",
    "Failed",
    "Finished",
    "FrameAnswer",
    "FrameEntered",
    "FrameSkipped",
    "FusionDecision",
    "FxNode",
    "GraphBreak",
    "GraphCaptured",
    "GraphScript",
    "GraphSymbols",
    "Guard",
    "GuardsInstalled",
    "Hunk",
    "Job",
    "Kernel",
    "KernelAssembled",
    "KernelCall",
    "KernelCompiled",
    "KernelLine",
    "KernelNotAssembled",
    "KernelResources",
    "KernelScript",
    "KernelStage",
    "KernelTimed",
    "Location",
    "LoopVectorized",
    "Memory",
    "ModulesImported",
    "Output",
    "PaddingChecked",
    "PaddingVerdict",
    "PairsMeasured",
    "Partitioned",
    "PassRun",
    "Phase",
    "PhaseStarted",
    "PhaseTimed",
    "ProtocolError",
    "RecompileAnswer",
    "Recompiled",
    "RegionCalls",
    "RegionCompiled",
    "RegionCreated",
    "RegionGraph",
    "RooflinePoint",
    "RunStage",
    "SavedTensor",
    "ScheduleMade",
    "SchedulerNode",
    "ScriptEnded",
    "SourceRead",
    "Specialization",
    "Standby",
    "StateKeys",
    "Symbol",
    "SymbolCondition",
    "SymbolSource",
    "TargetLowered",
    "TargetSkipped",
    "TimingEstimate",
    "TimingSkipped",
    "TimingVerdict",
    "TuningChoice",
    "Vectors",
    "Wrapper",
    "ZeroOneSpecialization",
    "clean",
    "decode",
    "decode_job",
    "encode",
]  # fmt: skip
