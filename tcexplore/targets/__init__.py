"""A GPU's generated code on a machine that has none: the device table, lowering, assembling, resources, roofline."""
