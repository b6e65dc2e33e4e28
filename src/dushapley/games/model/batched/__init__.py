"""Small classifiers trained for thousands of pools at once, and the plain ones they must equal."""
