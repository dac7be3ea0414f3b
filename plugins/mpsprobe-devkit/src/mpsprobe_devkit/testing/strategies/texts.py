"""Texts and names as reports have them, and texts that want to break out of wherever they are put."""

from __future__ import annotations

from hypothesis import strategies as st

from mpsprobe_devkit.testing.mutations import HOSTILE_TEXTS

LONGEST = 12


def texts() -> st.SearchStrategy[str]:
    """Short texts of any characters that UTF-8 can hold: lone surrogates are left out."""
    return st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=LONGEST)


def hostile_texts() -> st.SearchStrategy[str]:
    """Markup, escape sequences, formulas, line ends, 5,000 characters, half a surrogate pair; and any other text."""
    tricky = st.text(alphabet="|`\\<>&*_[]{}=+-@\"'\n\r\t .:/0123456789a", max_size=40)
    return st.sampled_from(list(HOSTILE_TEXTS.values())) | tricky | st.text(max_size=60)


def operator_names() -> st.SearchStrategy[str]:
    """Operators as reports write them: ``aten::linalg_qr.out``."""
    return st.from_regex(r"[a-z]{2,8}::[a-z_]{1,12}(\.[A-Za-z_]{1,8})?", fullmatch=True)


def releases() -> st.SearchStrategy[str]:
    """Releases of torch, among them ones that never were: ``2.13.0``."""
    return st.builds("{}.{}.{}".format, st.integers(1, 3), st.integers(0, 40), st.integers(0, 9))
