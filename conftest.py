"""For every test of the repository, the plugins' among them."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell, which makes a whole tree of processes deaf to Ctrl-C: tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
