"""Generated code for a GPU that may be absent: device table, lowering, assembling, resources and roofline."""
