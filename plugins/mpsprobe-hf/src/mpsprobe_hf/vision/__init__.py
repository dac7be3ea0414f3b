"""Models of timm and torchvision as workloads: ``timm:NAME`` and ``torchvision:NAME``."""
