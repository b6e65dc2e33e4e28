"""Models that need only sums over rows: trained for thousands of pools in one stroke.

Each owner is reduced once to its `Statistics`. Moved to a common origin (the mean of the test rows,
so that no digits are lost) they are plain vectors v_j, a pool with fractions f_j is the vector
Σ f_j v_j, and the models of all pools are solved for together. Fractions are arithmetic, so
DU-Shapley needs no draws and no replicates.

Pools go through in blocks of a constant shape, filled up where there are fewer, so the last bit of
a value does not depend on its company.
"""
