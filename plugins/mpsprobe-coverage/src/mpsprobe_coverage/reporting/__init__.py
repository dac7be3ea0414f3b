"""From a recording to the sections of a report."""
