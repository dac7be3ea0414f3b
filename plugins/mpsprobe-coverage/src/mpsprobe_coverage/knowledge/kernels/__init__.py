"""Kernel tables: which operators each torch release registers for MPS, read from the wheels that Mac users install.

`releases` names them, `table` judges one operator and says what a family of tables answers, `mps` is the family that
comes with this package, `backends` those of plugins, `live` asks the torch that is installed.
"""
