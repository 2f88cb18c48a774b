"""Is compiled still right? Both sides judged against a float64 run of a copy."""
