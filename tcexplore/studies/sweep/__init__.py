"""Sweep study: one dimension of the inputs at several sizes."""
