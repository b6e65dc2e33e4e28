"""The command line: parse, one library call, print. Data on stdout, everything else on stderr."""
