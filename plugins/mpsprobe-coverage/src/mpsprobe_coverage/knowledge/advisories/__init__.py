"""Known wrong results: operators that run on MPS and return wrong numbers, with the calls and versions that do."""
