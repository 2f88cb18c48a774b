"""Chrome traces of torch.profiler, joined to the code that a TORCH_TRACE holds."""
