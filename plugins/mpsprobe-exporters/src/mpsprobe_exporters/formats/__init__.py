"""Files that programs read: one module for each format, and the rows and findings that several of them share."""
