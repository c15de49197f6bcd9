"""asyncrl: asyncio-native distributed reinforcement learning over Redis streams."""
