"""`python -m dushapley` is the command line."""

from dushapley.cli.main import main

if __name__ == "__main__":
    main()
