"""Fix study: verified fixes for graph breaks."""
