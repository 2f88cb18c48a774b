"""Studies: many runs of one model file, planned, shown and reported from one package each."""
