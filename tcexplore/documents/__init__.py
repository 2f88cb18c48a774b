"""Documents: what panes and reports show, as rows of styled text with links, built from a snapshot."""
