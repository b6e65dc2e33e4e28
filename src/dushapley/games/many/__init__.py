"""Games of thousands of owners, who know every owner's marginal around a pool at once."""
