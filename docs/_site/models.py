"""``{models} MODULE``: the models of ``mpsprobe.schemas.MODULE`` on a page, with a table of the fields of each."""

from __future__ import annotations

import inspect
from typing import Any

from _site.markdown import MarkdownDirective, block, code, from_docstring, table
from _site.public import prose
from _site.schemas import meanings, models_of, others_of, public_name, shown_default, shown_type, unit


class Models(MarkdownDirective):
    """Each model of a module: what it is, its fields, its methods."""

    def markdown(self, argument: str) -> str:
        """A Python object for each model."""
        parts = [self._model(model) for model in models_of(argument)]
        others = [block("{eval-rst}", f".. {kind}:: {name}") for kind, name in others_of(argument)]
        return "\n\n".join(parts + others)

    def _model(self, model: type[Any]) -> str:
        rows = []
        described = meanings(model)
        for name, field in model.model_fields.items():
            meaning = from_docstring(described.get(name, ""))
            rows.append((code(name), shown_type(field.annotation), unit(name, field), shown_default(field), meaning))
        name, canonical = public_name(model), f"{model.__module__}.{model.__name__}"
        head = [f"````{{py:class}} {name}"]
        head += [f":canonical: {canonical}"] if name != canonical else []
        parts = ["\n".join(head), from_docstring(prose(model.__doc__))]
        parts.append(table(("field", "type", "unit", "default", "meaning"), rows))
        parts += [self._method(method) for method in vars(model).values() if _is_public(method, model)]
        return "\n\n".join([*parts, "````"])

    def _method(self, method: Any) -> str:
        signature = str(inspect.signature(method)).replace("(self, ", "(").replace("(self)", "()").replace("'", "")
        text = from_docstring(inspect.getdoc(method) or "")
        return f"```{{py:method}} {method.__name__}{signature}\n\n{text}\n```"


def _is_public(method: Any, model: type[Any]) -> bool:
    """Whether the class itself defines it: pydantic puts functions of its own there too."""
    own = inspect.isfunction(method) and method.__qualname__.startswith(model.__name__ + ".")
    return own and not method.__name__.startswith("_")
