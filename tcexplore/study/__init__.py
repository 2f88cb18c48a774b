"""Studies of one file: many runs, one after another, each in a worker of its own. No torch in this process."""
