"""Correctness of compiled code: eager and compiled compared with a float64 run of a copy."""
