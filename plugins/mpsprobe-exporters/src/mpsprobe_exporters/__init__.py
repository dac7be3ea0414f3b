"""What a report becomes: a table on the terminal, JSON, Markdown, CSV."""
