"""The entry of the user's file: what to compile, and with which inputs."""
