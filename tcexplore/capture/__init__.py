"""What torch did, taken from its own objects and events; one file per thing captured. Runs in the worker only."""
