"""Parsers of the text that torch writes, for live runs and for traces; standard library only."""
