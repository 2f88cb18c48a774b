"""What Dynamo did: graphs, graph breaks, skipped frames, recompiles and eager ops."""
