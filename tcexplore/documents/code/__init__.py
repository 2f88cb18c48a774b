"""The code pane and its views: kernels, fusion, stages, what a kernel takes of the device."""
