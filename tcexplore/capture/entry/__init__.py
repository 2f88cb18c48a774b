"""Finding what of the person's file to compile, and with which inputs."""
