"""Recompile study: varied inputs, the recompiles they cause, and the fixes for them."""
