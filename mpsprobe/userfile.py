"""The open name space ``path/to/file.py:function``: a model that the user builds.

The function returns a ``TorchRun``, or a model and its inputs (a dict of keyword arguments, a tuple
of positional ones, or a single tensor). It may take options as parameters, by name: ``phase``,
``dtype``, ``batch_size``, ``seq_len`` and ``weights``. Nothing here imports torch: the file does.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from mpsprobe.declarations import WorkloadDeclaration
from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.suggestions import an, in_short, nearest, printable, some

OPTIONS = ("phase", "dtype", "batch_size", "seq_len", "weights")
"""The fields of ``RunOptions`` that a function may take."""

RETURNS = "It should return (model, inputs), with inputs a dict, a tuple or a tensor, or a mpsprobe.protocols.TorchRun."
PROGRAM = "To run the file as a program: mpsprobe run {}"
PACKAGES = {"site-packages", "dist-packages"}
_executed: set[Path] = set()  # folders of files that were run
_loaded: set[str] = set()  # what was imported before them, of what nothing works without
CASTS = {"float16": "half", "bfloat16": "bfloat16"}
"""The methods of modules and tensors that change a dtype without torch being imported here."""


def declare(name: str) -> WorkloadDeclaration | None:
    """The workload of ``file.py:function``, ``None`` for a name of another form; the file is not run yet."""
    parts = split(name)
    if parts is None:
        return None
    path, function = parts
    shown = printable(str(path))
    if os.path.isdir(path):  # noqa: PTH112 - a Path raises where a name is too long
        raise WorkloadError(f"'{shown}' is a folder, not a Python file")
    if not os.path.isfile(path):  # noqa: PTH113
        raise WorkloadError(f"there is no file '{shown}'", _near_files(path))
    if not function:
        known = [f"{shown}:{function}" for function in _public(path)]
        raise WorkloadError(
            f"'{printable(name)}' does not say which function makes the model",
            f"Name it after a colon: {' or '.join(known[:3]) or shown + ':FUNCTION'}",
        )
    about = f"{function}() of {shown}"
    return WorkloadDeclaration(name, "mpsprobe.userfile:load", about, family="file", framework=framework_of(path))


def load(name: str) -> UserWorkload:
    path, function = split(name) or (Path(name), "")
    return UserWorkload(name, path, function)


def split(name: str) -> tuple[Path, str] | None:
    """Path and function of ``file.py:function``; ``C:\\models\\file.py:function`` has two colons."""
    name = os.path.expanduser(name)  # noqa: PTH111 - as reports write it
    if name.lower().endswith(".py"):
        return Path(name), ""
    path, colon, function = name.rpartition(":")
    if colon and path.lower().endswith(".py"):
        return Path(path), function.strip()
    return None


def of_user(error: BaseException) -> WorkloadError | None:
    """The error to show for one that code of a user's file raised, whoever called it; ``None`` where it was other code.

    Between a user's frame and mpsprobe's the inner one decides: frames of libraries are passed over.
    """
    file: str | None = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        code = Path(frame.f_code.co_filename)
        if _executed & {code.parent, *code.parents} and not PACKAGES & set(code.parts):
            file = frame.f_code.co_filename
        elif str(frame.f_globals.get("__name__", "")).partition(".")[0].startswith("mpsprobe"):
            file = None
    if file is None and (lost := sorted(_loaded - sys.modules.keys())):
        why = f"a file of yours took {some(lost)} out of sys.modules: {in_short(error)}"
        return WorkloadError(why, "What is imported has to stay imported.")
    if file is None:
        return None
    return WorkloadError(f"'{printable(Path(file).name)}' raised {in_short(error)}", _own_lines(error, Path(file)))


class UserWorkload:
    """A function of a user's file, as a ``Workload``."""

    def __init__(self, name: str, path: Path, function: str) -> None:
        self.name = name
        self.path = path
        self.function = function
        self.framework = framework_of(path)

    def build(self, options: RunOptions) -> Any:
        """Run the file and call the function; what a file of another framework than torch returns is left as it is."""
        with self._own_errors(), _importable(self.path):
            return self._built(self._function(execute(self.path)), options)

    def describe(self) -> Mapping[str, Any]:
        """Where the function is and which options it takes, found without running the file."""
        for node in _functions(self.path):
            if node.name == self.function:
                names = [argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]]
                return {
                    "file": str(self.path),
                    "line": node.lineno,
                    "description": (ast.get_docstring(node) or "").partition("\n")[0],
                    "options": [option for option in OPTIONS if option in names or node.args.kwarg],
                }
        return {"file": str(self.path)}

    def _function(self, module: ModuleType) -> Callable[..., Any]:
        make = getattr(module, self.function, None)
        if callable(make) and (isinstance(make, type) or not _is_module(make)):
            return make  # type: ignore[no-any-return]
        missing = f"'{printable(str(self.path))}' has no function '{printable(self.function)}'"
        if make is not None:
            hint = f"{self._line()}\nName a function. {RETURNS}"
            raise WorkloadError(f"{missing}: that is {an(type(make).__name__)}", hint)
        known = _public(self.path)
        near = nearest(self.function, known)
        there = f"It has: {some(known, 5)}." if known else "It defines no function at all."
        raise WorkloadError(missing, f"Did you mean {' or '.join(near)}?" if near else there)

    def _line(self) -> str:
        for node in _parsed(self.path).body:
            targets = [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
            if self.function in (*targets, getattr(node, "name", None)):
                line = linecache.getline(str(self.path), node.lineno).strip()
                return f"In your file: {self.path.name}:{node.lineno}: {printable(line)}"
        return f"In your file: {self.path.name}"

    def _arguments(self, make: Callable[..., Any], options: RunOptions) -> dict[str, Any]:
        """The options that ``make`` takes, leaving to its own defaults what the user did not say."""
        if options.size != "real":
            raise UsageError(f"the function '{self.function}' makes a model of its own size", "Leave --size out.")
        try:
            parameters = inspect.signature(make).parameters
        except (TypeError, ValueError):  # built in, without a signature
            return {}
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        by_name = {
            name
            for name, parameter in parameters.items()
            if parameter.kind not in (*variable, parameter.POSITIONAL_ONLY)
        }
        needed = [
            name
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty and parameter.kind not in variable
        ]
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            by_name |= set(OPTIONS)
        arguments: dict[str, Any] = {}
        for option in OPTIONS:
            value = getattr(options, option)
            if option in by_name and (value is not None or option in needed):
                arguments[option] = value
            # Files of other frameworks leave sizes open.
            sized = option in ("batch_size", "seq_len") and self.framework == "torch"
            if option not in by_name and sized and value is not None:
                raise UsageError(
                    f"the function '{self.function}' takes no {option}",
                    f"Give it a parameter of that name, or leave out --{option.replace('_', '-')}.",
                )
        for name in needed:
            if name not in arguments:
                known = f"Give it a default. mpsprobe gives a value to these names only: {', '.join(OPTIONS)}."
                hint = f"{known}\n{PROGRAM.format(self.path)}" if self.function == "main" else known
                missing = f"the function '{self.function}' needs the argument '{name}', which mpsprobe cannot give"
                raise WorkloadError(missing, f"{self._line()}\n{hint}")
        return arguments

    def _built(self, make: Callable[..., Any], options: RunOptions) -> Any:
        """What the function returned as a ``TorchRun``; one that it made itself is left as it is."""
        arguments = self._arguments(make, options)
        made = make(**arguments)
        if isinstance(made, TorchRun) or self.framework != "torch":
            return made
        if not (isinstance(made, tuple) and len(made) == 2 and _is_module(made[0])):
            hint = f"{RETURNS}\n{PROGRAM.format(self.path)}" if made is None else RETURNS
            raise WorkloadError(f"'{printable(self.name)}' returned {_shape_of(made)}", hint)
        model, inputs = made
        kwargs = dict(inputs) if isinstance(inputs, Mapping) else {}
        args = () if isinstance(inputs, Mapping) else tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        cast = None if "dtype" in arguments else CASTS.get(options.dtype)
        if cast is not None:
            model = getattr(model, cast)()
            args = tuple(_cast(value, cast) for value in args)
            kwargs = {key: _cast(value, cast) for key, value in kwargs.items()}
        model.train(options.phase == "training")
        batch_size, seq_len = arguments.get("batch_size"), arguments.get("seq_len")
        return TorchRun(model=model, args=args, kwargs=kwargs, batch_size=batch_size, seq_len=seq_len)

    @contextlib.contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Turn what the user's code raises into a ``WorkloadError`` that shows where."""
        try:
            yield
        except (UsageError, WorkloadError, KeyboardInterrupt):
            raise
        except BaseException as error:  # whatever a user's file may do
            hint = _own_lines(error, self.path)
            if isinstance(error, SystemExit):
                hint += f"\n{PROGRAM.format(self.path)}"
            raise WorkloadError(f"'{printable(self.name)}' raised {in_short(error)}", hint) from error


class MadeWorkload(UserWorkload):
    """A function that a program hands over: it makes a model and its inputs."""

    def __init__(self, make: Callable[..., Any]) -> None:
        super().__init__(make.__qualname__, Path(inspect.getfile(make)), make.__name__)
        self._make = make

    def build(self, options: RunOptions) -> Any:
        with self._own_errors():
            return self._built(self._make, options)


def execute(path: Path) -> ModuleType:
    """Run the file as a module of its own; no ``__pycache__`` is left next to it."""
    module = ModuleType(f"mpsprobe_user_{path.stem}")
    module.__file__ = str(path.resolve())
    _executed.add(path.resolve().parent)
    _loaded.update(name for name in ("torch", "numpy") if name in sys.modules)
    sys.modules[module.__name__] = module  # dataclasses and pickle look their own module up
    exec(compile(path.read_bytes(), module.__file__, "exec"), module.__dict__)
    return module


def _functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in _parsed(path).body if isinstance(node, ast.FunctionDef)]


def _public(path: Path) -> list[str]:
    """Its functions, ``make`` first, as the documentation calls the one that makes a model."""
    names = [node.name for node in _functions(path) if not node.name.startswith("_")]
    return sorted(names, key=lambda name: name != "make")


def framework_of(path: Path) -> str:
    """What a file is written in, by what it imports anywhere: ``tensorflow``, also through Keras, or ``torch``."""
    packages = set()
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            packages.add((node.module or "").partition(".")[0])
    return "tensorflow" if packages & {"tensorflow", "keras"} and "torch" not in packages else "torch"


def _parsed(path: Path) -> ast.Module:
    """What the file says, without running it; nothing if it cannot be read."""
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


@contextlib.contextmanager
def _importable(path: Path) -> Iterator[None]:
    """The file's neighbours can be imported, as when the file is run as a script, and it finds no arguments."""
    entry, arguments = str(path.resolve().parent), sys.argv
    sys.path.insert(0, entry)
    sys.argv = [str(path)]
    try:
        yield
    finally:
        sys.argv = arguments
        with contextlib.suppress(ValueError):
            sys.path.remove(entry)


def _own_lines(error: BaseException, path: Path) -> str:
    """The lines of the user's folder that the exception went through, outermost first."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"In your file: {Path(error.filename).name}:{error.lineno}: {printable((error.text or '').strip())}"
    folder = path.resolve().parent
    frames = [(Path(frame.filename), frame) for frame in traceback.extract_tb(error.__traceback__)]
    # An environment often lies inside the project's folder; its packages are not the user's own lines.
    own = [(file, frame) for file, frame in frames if folder in file.parents and not PACKAGES & set(file.parts)]
    shown = own[-5:] or frames[-1:]
    lines = [f"{file.name}:{f.lineno} in {f.name}: {printable((f.line or '').strip())}" for file, f in shown]
    label = "In your file: " if own else "Not in your file: "
    return label + ("\n" + " " * len(label)).join(lines)


def _near_files(path: Path) -> str:
    folder = path.parent
    try:
        known = [path.name for path in folder.iterdir() if path.suffix.lower() == ".py"]
    except OSError:
        return f"There is no folder '{printable(str(folder))}' either."
    near = nearest(path.name, known)
    return f"Did you mean {' or '.join(str(folder / name) for name in near)}?" if near else "Check the path."


def _is_module(value: Any) -> bool:
    return all(callable(getattr(value, name, None)) for name in ("named_parameters", "train", "__call__"))


def _shape_of(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(type(part).__name__ for part in value) or 'nothing'}"
    if _is_module(value) and not isinstance(value, type):
        return f"a model ({type(value).__name__}) without inputs"
    return "nothing" if value is None else an(type(value).__name__)


def _cast(value: Any, method: str) -> Any:
    """A float32 tensor in another dtype; everything else, float64 included, as it is."""
    return getattr(value, method)() if str(getattr(value, "dtype", "")) == "torch.float32" else value
