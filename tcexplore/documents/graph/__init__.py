"""The graph pane and its views: Dynamo graphs, AOT graphs, decomposition, passes."""
