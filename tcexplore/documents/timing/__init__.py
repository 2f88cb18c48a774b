"""The timing pane and its views: the verdict, one call, compile time, a script's time line."""
