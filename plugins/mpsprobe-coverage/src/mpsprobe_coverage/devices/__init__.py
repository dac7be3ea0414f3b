"""Devices that record: virtual in Python, virtual in C++ (native), and real ones that are observed."""
