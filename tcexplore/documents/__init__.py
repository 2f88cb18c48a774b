"""The documents of the panes: a run in, rows out. Pure, without textual; long ones build a row when it is asked for."""
