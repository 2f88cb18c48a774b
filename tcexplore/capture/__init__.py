"""What torch did, taken from its own objects and events: one module per fact. Runs in the worker only."""
