"""Recompile study: varied inputs, their recompiles, and variants that avoid them."""
