"""What Flower itself runs: two relays and a program, which need flwr and nothing of this library.

They are run by file, in whatever environment Flower is installed in.
"""
