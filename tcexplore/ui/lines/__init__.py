"""Rows on the screen: the widget that shows a document, its search and its highlights."""
