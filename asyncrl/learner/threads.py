"""How many threads torch may use."""

import torch


def set_threads(threads: int) -> None:
    """Let updates on the CPU use `threads` threads, in this whole process.

    The small networks of most runs are fastest with one, which also leaves the other cores to the
    actors. For programs; the library itself never calls it.
    """
    torch.set_num_threads(threads)
