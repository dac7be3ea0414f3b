"""The process: arguments in, exit code out, and nothing on standard error that the user cannot use.

Exit codes: 0 clean, 1 findings (only by ``--fail-on``), 2 wrong use or failure, 130 after Ctrl-C,
143 after SIGTERM, 141 when the reader of standard output closed the pipe (128 plus the number of the signal, as
shells count). Everything is imported inside ``main``, where Ctrl-C is already quiet.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpsprobe.errors import MpsprobeError

INTERRUPTED = 130
TERMINATED = 143
READER_GONE = 141
FAILED = 2
COMPLETE = "_MPSPROBE_COMPLETE"  # set by the shell's script of completion
WIDEST = 120  # columns of a help; longer lines are hard to read
DRAWN = "…✓│─"  # what tables and messages are made of, besides ASCII


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``mpsprobe`` with ``arguments`` (default: the process's own) and return its exit code."""
    code = 0
    try:
        from mpsprobe.cli import ending

        with ending.signals_raise(), ending.ends_are_said():
            code = _run(sys.argv[1:] if arguments is None else list(arguments))
        _flush()
    except KeyboardInterrupt:
        terminated = getattr(sys.modules.get("mpsprobe.cli.ending"), "was_terminated", bool)()
        code = TERMINATED if terminated else INTERRUPTED
    except OSError as error:
        code = _flush_failed(error, said=code == FAILED)
    return code


def _run(arguments: list[str]) -> int:
    import click

    from mpsprobe.cli.group import DEBUG, in_words, main_group
    from mpsprobe.errors import MpsprobeError
    from mpsprobe.plugins.loading import describe
    from mpsprobe.plugins.registry import use_registry
    from mpsprobe.settings import read_settings
    from mpsprobe.streams import QUIET, columns, is_reader_gone
    from mpsprobe.suggestions import remedy

    _make_printable()
    DEBUG.set(False)
    QUIET.set(False)
    try:
        if COMPLETE in os.environ:
            from click.shell_completion import shell_complete

            with contextlib.suppress(MpsprobeError):  # a command that nobody has completes to nothing
                return shell_complete(main_group, {}, "mpsprobe", COMPLETE, os.environ[COMPLETE])
            return 0
        settings, width = read_settings(), min(columns(), WIDEST) - 2
        with main_group.make_context("mpsprobe", arguments, default_map=settings, terminal_width=width) as context:
            main_group.invoke(context)
    except click.exceptions.Exit as request:
        return request.exit_code
    except SystemExit as request:  # some libraries end the process; the outputs are still flushed as ever
        if request.code is None or isinstance(request.code, int):
            return request.code or 0
        _explain(str(request.code), None)
        return FAILED
    except (click.Abort, EOFError):  # Ctrl-C or the end of the input at a question
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        with _to_stderr():
            error.show()
        return FAILED
    except click.ClickException as error:
        return explain(in_words(error))
    except MpsprobeError as error:
        return explain(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the last place where a sentence can report it
        if isinstance(error, OSError):
            if is_reader_gone(error):
                raise
            _flush()  # raises again what a library met when it wrote there
        bug = "This is a bug. With --debug or MPSPROBE_DEBUG=1 it shows where."
        _explain(f"unexpected {describe(error)}", remedy(error) or bug)
        return FAILED
    finally:
        use_registry(None)  # what comes after it in one process (a test, a notebook) has its own switches
    return 0


def explain(error: MpsprobeError) -> int:
    """Print ``error``, with what to do about its cause where that is well known; the exit code."""
    from mpsprobe.suggestions import remedy

    _explain(error.message, "\n".join(dict.fromkeys(filter(None, (error.hint, remedy(error))))))
    return error.exit_code


def _explain(message: str, hint: str | None) -> None:
    import click

    from mpsprobe.cli.group import DEBUG

    lines = (f"Error: {message}" + (f"\n{hint}" if hint else "")).split("\n")
    if sys.stderr is not None and sys.stderr.isatty():
        from mpsprobe.cli.listing import wrapped
        from mpsprobe.streams import columns

        lines = [part for line in lines for part in wrapped(line, columns())]
    with _to_stderr():
        if DEBUG.get() and sys.exc_info()[0] is not None:
            import traceback

            traceback.print_exc()
        click.echo("\n".join(lines), err=True)


@contextlib.contextmanager
def _to_stderr() -> Iterator[None]:
    """Inside, what standard error does not take is lost; the exit code stays."""
    from mpsprobe.streams import discard

    try:
        yield
    except OSError:
        discard(sys.stderr)


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _make_printable() -> None:
    """No output fails because of a character: a pipe on Windows may still be in a one-byte code page."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        try:
            DRAWN.encode(stream.encoding)
            stream.reconfigure(errors="replace")
        except (LookupError, UnicodeEncodeError):
            chosen = "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=None if chosen else "utf-8", errors="replace")
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(sys.stdout, io.TextIOWrapper) and isinstance(raw, io.RawIOBase):
        # Unbuffered (python -u), a write that took only a part, on a full disk, counts as done: here the rest is tried.
        whole = io.BufferedWriter(raw)
        sys.stdout = io.TextIOWrapper(whole, sys.stdout.encoding, sys.stdout.errors, line_buffering=True)


def _flush_failed(error: OSError, said: bool) -> int:
    """The exit code when standard output took no more; ``said``: the command has failed with a message, mostly this."""
    from mpsprobe.streams import discard, is_reader_gone

    discard(sys.stdout)  # the interpreter's own flush must not complain again
    if is_reader_gone(error):
        return READER_GONE
    if not said:
        _explain(f"cannot write to standard output: {error.strerror}", None)
    return FAILED
