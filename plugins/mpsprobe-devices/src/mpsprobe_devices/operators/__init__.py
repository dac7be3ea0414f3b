"""Where the time of a step goes: operators, modules, a trace, and the operators that left MPS."""
