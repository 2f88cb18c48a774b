"""Runs read from TORCH_TRACE files: one process or many ranks, finished or growing."""
