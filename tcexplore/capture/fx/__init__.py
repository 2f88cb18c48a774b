"""FX graphs, nodes and tensors as records and text."""
