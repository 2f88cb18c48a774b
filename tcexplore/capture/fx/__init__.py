"""FX nodes, tensors and sources as records and text; serves every kind of graph."""
