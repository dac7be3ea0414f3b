"""The atlas: every model on every torch release, swept once and asked often."""
