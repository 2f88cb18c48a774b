"""Bisect study: add one compiler layer at a time until a run fails or differs from eager."""
