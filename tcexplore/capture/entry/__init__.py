"""Finding what of the user's file to compile, and with which inputs."""
