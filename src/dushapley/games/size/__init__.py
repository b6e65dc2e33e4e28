"""Games of how many rows a pool holds: curves, exact values, DU-Shapley and its error."""
