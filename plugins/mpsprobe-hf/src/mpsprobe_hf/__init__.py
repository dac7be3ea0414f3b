"""Models of libraries as workloads; a room for each: ``transformers``, ``diffusers``, ``vision``."""
