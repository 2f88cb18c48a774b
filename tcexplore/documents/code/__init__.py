"""The code pane and its views: kernels, fusion, stages, resources, roofline, autotuning, targets."""
