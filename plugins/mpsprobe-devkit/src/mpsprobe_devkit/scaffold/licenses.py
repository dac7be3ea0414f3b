"""The license of a new plugin: the author's choice, checked because a build refuses an unknown one."""

from __future__ import annotations

import re

from mpsprobe.errors import UsageError
from mpsprobe.suggestions import printable


def license_expression(text: str) -> str:
    """``text`` as SPDX writes it: ``mit`` is ``MIT``.

    Raises:
        UsageError: it is not an expression of SPDX, or one of a license that SPDX does not know.
    """
    try:
        from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
    except ImportError:  # packaging before 24.2 knows no licenses
        if re.fullmatch(r"[A-Za-z0-9.+() -]{1,100}", text):
            return text
        raise _refused(text) from None
    try:
        return str(canonicalize_license_expression(text))
    except (InvalidLicenseExpression, ValueError) as error:
        raise _refused(text) from error


def _refused(text: str) -> UsageError:
    return UsageError(
        f"'{printable(text)}' is not a license that SPDX knows", "For example MIT, BSD-3-Clause or Apache-2.0."
    )
