"""The entry of the model file: the callable to compile, and its inputs."""
