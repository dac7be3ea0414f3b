"""Pipelines of diffusers and their parts as workloads: ``diffusers:NAME``, folders, repositories of the Hub."""
