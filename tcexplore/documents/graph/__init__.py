"""The FX graph pane and its views, below Dynamo's graphs too."""
