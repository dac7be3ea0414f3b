"""Models of transformers as workloads: the catalog, model types, checkpoint folders, repositories of the Hub."""
