"""Sweeps as Triton kernels: reports are read once a pass, and neither weights nor responsibilities are ever stored.

A row's system is formed, solved, and what the mixture's update needs is summed up at the new factors. A row with at
least as many reports as unknowns is solved for the change of its factors (`forming`); it may be formed in segments
that are added in order, so that results do not depend on what runs when. One with fewer is a smaller system, with an
unknown for each report (`relating`). Both kinds are solved alike (`solving`), in single precision; rows that turn out
to be nearly singular are done again in doubles. `real` says which.

Kernels are not compiled anew for where a run of tasks begins: else a second run would be, in the middle of a fit.
"""
