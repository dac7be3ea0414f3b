"""The exporter ``html``: one file that opens anywhere, with nothing fetched from anywhere."""
