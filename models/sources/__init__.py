"""Readers of user files, shared by simulations and boards: pictures, tables of numbers, loaders. No torch.

What enters: formats that both read. `fleet/data/` and `edge_agent/samples/` decide which samples are used and how they
are split.
"""
