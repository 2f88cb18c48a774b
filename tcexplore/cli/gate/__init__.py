"""The gate of `tcexplore check`: limits, the allow-list of breaks, and the comparison with a baseline."""
