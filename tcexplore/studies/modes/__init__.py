"""Modes study: all modes and backends compared."""
