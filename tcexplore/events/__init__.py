"""The one vocabulary between worker, session and views: frozen records, with no torch and no textual."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tcexplore.events.base import PROTOCOL, Event, Location
from tcexplore.events.job import Config, Job, Standby
from tcexplore.events.text import clean

if TYPE_CHECKING:
    from tcexplore.events.codec import HEADER, LARGEST, ProtocolError, encode
    from tcexplore.events.cures import BreakCost, BreaksCosted, ChangeJudged, ChangeTimed, PaddingJudged
    from tcexplore.events.device import Choice, CudaGraphRecorded, CudaGraphSkipped, DeviceFacts, KernelTimed, Tuned
    from tcexplore.events.dynamo import (
        RECOMPILE_KINDS,
        FrameEntered,
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
        ScheduleMade,
        SchedulerNode,
        Wrapper,
    )
    from tcexplore.events.passes import Hunk, PassRun
    from tcexplore.events.recompile import (
        WOULD_VERDICTS,
        Condition,
        EntryAsked,
        FrameAsked,
        Specialised,
        Symbol,
        SymbolsFound,
        SymbolSource,
        WouldRecompile,
        ZeroOne,
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
    from tcexplore.events.ship import ArtifactsLoaded, ArtifactsSaved, StateKeys
    from tcexplore.events.targets import (
        DeviceAsked,
        KernelAssembled,
        KernelNotAssembled,
        KernelRunnable,
        LoopVectorised,
        Resources,
        RooflinePoint,
        Stage,
        TargetLowered,
        TargetSkipped,
        Vectors,
    )
    from tcexplore.events.timing import CallMade, PairsMeasured, TimingEstimate, TimingSkipped
    from tcexplore.events.vocabulary import VOCABULARY, decode, decode_job
else:
    # Making a record's class takes 0.5 ms, and there are some fifty: the first frame does not wait for those that only
    # a run needs.
    _LATER = (
        "run",
        "timing",
        "cures",
        "dynamo",
        "inductor",
        "passes",
        "recompile",
        "results",
        "regions",
        "ship",
        "targets",
        "device",
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
    "ACCURACY_VERDICTS", "HEADER", "LARGEST", "PHASES", "PROTOCOL", "RECOMPILE_KINDS", "VOCABULARY",
    "WOULD_VERDICTS", "Accuracy", "ArtifactsLoaded", "ArtifactsSaved", "AtenGraph", "BackwardCaptured",
    "BreakCost", "BreaksCosted", "CacheUsed", "CallMade", "CallPart", "CallProfiled", "ChangeJudged",
    "ChangeTimed", "Choice", "Condition", "Config", "CudaGraphRecorded", "CudaGraphSkipped", "Deviation",
    "DeviceAsked", "DeviceFacts", "EntryAsked", "EntryFound", "Event", "FactMissing", "Failed", "Finished",
    "FrameAsked", "FrameEntered", "FrameSkipped", "FusionDecision", "FxNode", "GraphBreak", "GraphCaptured",
    "GraphOfRegion", "GraphScript", "Guard", "GuardsInstalled", "Hunk", "Job", "Kernel", "KernelAssembled",
    "KernelCall", "KernelCompiled", "KernelLine", "KernelNotAssembled", "KernelRunnable", "KernelTimed",
    "Location", "LoopVectorised", "Memory", "ModulesImported", "OpsOutside", "Output", "PaddingJudged",
    "PairsMeasured", "Partitioned", "PassRun", "PhaseStarted", "PhaseTimed", "ProtocolError", "Recompiled",
    "RegionCompiled", "RegionMade", "RegionSeen", "Resources", "RooflinePoint", "SavedTensor", "ScheduleMade",
    "SchedulerNode", "ScriptFollowed", "SourceRead", "Specialised", "Stage", "Standby", "StateKeys", "Symbol",
    "SymbolSource", "SymbolsFound", "TargetLowered", "TargetSkipped", "TimingEstimate", "TimingSkipped",
    "Tuned", "Vectors", "WouldRecompile", "Wrapper", "ZeroOne", "clean", "decode", "decode_job", "encode",
]  # fmt: skip
