"""A learner and two actors inside one asyncio application, over a real server.

Run it:  python examples/embed.py
"""

import anyio

import asyncrl


async def main() -> None:
    async with (
        asyncrl.EmbeddedServer() as server,
        asyncrl.connect(server.url, run="embedded") as broker,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(2):
            tasks.start_soon(asyncrl.ActorWorker(server.url, "embedded").run)
        proxy = asyncrl.ActorProxy(broker, "CartPole-v1", envs=4)
        learner = asyncrl.OnPolicyLearner(asyncrl.PPO(), proxy, total_steps=8_192)
        async for progress in learner:
            mean = "-" if progress.mean_return is None else f"{progress.mean_return:.1f}"
            print(f"{progress.env_steps} steps, mean return {mean}, {progress.actors} actors")
        # The run is complete, so its actors leave by themselves and the task group ends.
        print((await broker.ledger()).explain())


anyio.run(main)
