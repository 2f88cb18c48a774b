"""Bisect study: add one compiler stage at a time until a run fails or differs from eager."""
