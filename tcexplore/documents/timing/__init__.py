"""The timing pane and its views: verdict, profile of a call, compile time, timeline of a script."""
