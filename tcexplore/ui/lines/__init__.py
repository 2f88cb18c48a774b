"""The widget that shows a document: any number of rows, only those on the screen built."""
