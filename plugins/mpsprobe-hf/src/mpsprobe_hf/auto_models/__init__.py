"""Workloads that are not in the catalog: any model type, a checkpoint folder, a repository of the Hub."""
