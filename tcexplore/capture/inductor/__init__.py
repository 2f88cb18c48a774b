"""Capture of AOTAutograd and Inductor: ATen graphs, passes, kernels with their lines, wrappers."""
