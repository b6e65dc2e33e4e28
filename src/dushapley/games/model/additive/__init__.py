"""Models that need only sums over rows: trained for thousands of pools in one stroke.

Each owner is reduced once to its `Statistics`. Moved to a common origin (the mean of the test rows,
so that no digits are lost) they are plain vectors v_j, a pool is their sum, and the models of all
pools are solved for together. A part of an owner's rows is the sum over the rows drawn, the same
rows that a model fitted on them would be given.

Pools go through in blocks of a constant shape, filled up where there are fewer, so the last bit of
a value does not depend on its company.
"""
