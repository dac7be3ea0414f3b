"""The atlas as pages for a browser: one HTML file, and data in scripts, as a page of a disk can fetch nothing else."""
