"""What Dynamo did: graphs, graph breaks, skipped frames, recompiles, and what ran outside its graphs."""
