from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small networks learn fastest on one thread, and the machine is shared."""
    torch.set_num_threads(1)
