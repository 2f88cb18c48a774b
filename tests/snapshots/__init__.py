"""Made-up but realistic runs, built from the same events that a worker would send."""
