"""What ``mpsprobe doctor PATH`` finds in a project before anything of it is installed or run."""
