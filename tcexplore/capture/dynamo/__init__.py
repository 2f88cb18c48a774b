"""Capture of Dynamo: graphs, graph breaks, skipped frames, recompiles and eager ops."""
