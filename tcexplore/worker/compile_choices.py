"""What `torch.compile` takes as mode and as backend."""

from __future__ import annotations


def modes() -> list[str]:
    """Every mode that this torch lists."""
    from torch._inductor import list_mode_options

    return list(list_mode_options())


def backends() -> list[str]:
    """Every backend that this torch lists as installed and, of those meant for debugging torch, the ones that tell at
    which layer a fault lies."""
    import torch

    debugging = set(torch.compiler.list_backends(exclude_tags=())) & {
        "eager", "aot_eager", "aot_eager_decomp_partition",
    }  # fmt: skip
    return sorted({*torch.compiler.list_backends(), *debugging})
