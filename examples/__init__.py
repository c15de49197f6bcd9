"""Programs to read and to run; those in folders are modules, `python -m examples.NAME`."""
