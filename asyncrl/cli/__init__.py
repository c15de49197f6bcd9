"""The command line: options, signals, local actor processes, exit codes."""
