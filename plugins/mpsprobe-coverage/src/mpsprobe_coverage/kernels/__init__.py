"""Kernel tables: which operators each torch release registers for MPS, read from the wheels that Mac users install.

`releases` names them, `store` loads them, `table` judges one operator, `live` asks the torch that is installed,
`builder` makes a table from a wheel.
"""
