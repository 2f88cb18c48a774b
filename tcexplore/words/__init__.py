"""How quantities, phases and paths are said to a person: the same in the report and on the screen."""
