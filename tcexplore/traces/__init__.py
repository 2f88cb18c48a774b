"""Runs out of TORCH_TRACE files: one process or many ranks, finished or growing."""
