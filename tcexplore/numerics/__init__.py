"""Judgement of the numerics of each kernel, alone, on the inputs that it really got."""
