"""Games of trained models: what a pool is worth is how well a model trained on it does."""
