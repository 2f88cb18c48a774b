"""What AOTAutograd and Inductor made of a graph: ATen graphs, passes, kernels with their lines, the wrapper."""
