"""Fused CPU kernels for MLP policies: a whole update, or a whole decision, in one compiled call.

They work in place on the memory of the torch parameters and of the torch optimizer's moments. The torch
learners stay the reference; tests hold the kernels to them.
"""
