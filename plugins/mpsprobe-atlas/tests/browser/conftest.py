"""Without a Chromium on the path nothing of this folder is collected."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "google-chrome", "chromium-browser", "chrome")

collect_ignore = [] if any(map(shutil.which, NAMES)) else ["test_in_chromium.py"]
