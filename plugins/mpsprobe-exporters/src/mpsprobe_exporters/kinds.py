"""The kinds of reports, by what exporters can do with them."""

from __future__ import annotations

COVERAGE = ("coverage", "coverage-matrix", "coverage-several")
ALL_KINDS = (*COVERAGE, "profile", "comparison")
READ = (*ALL_KINDS, "checkpoint", "fit", "upgrade", "ranking", "verification", "precision")
PROFILE = ("profile",)
