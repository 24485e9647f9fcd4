"""How a process uses torch."""

from __future__ import annotations


def prepare_torch(device: str, threads: int) -> str:
    """Set this process's CPU threads (0: as torch finds best). Returns the device, with ``auto`` resolved."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device
