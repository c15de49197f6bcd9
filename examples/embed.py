"""A learner and two actors inside one asyncio application, over a real server of its own.

Run it:  python examples/embed.py            (8192 environment steps, or as many as you name)
"""

import asyncio
import sys

import asyncrl

RUN = "embedded"


async def application() -> None:
    """Stand in for whatever else your program does on its event loop meanwhile."""
    while True:
        await asyncio.sleep(1)
        print("the application goes on")


async def train(total_steps: int) -> None:
    async with (
        asyncrl.EmbeddedServer() as server,
        asyncrl.connect(server.url, run=RUN) as broker,
        asyncio.TaskGroup() as actors,
    ):
        for _ in range(2):
            actors.create_task(asyncrl.ActorWorker(server.url, RUN).run())
        proxy = asyncrl.ActorProxy(broker, "CartPole-v1", envs=4)
        learner = asyncrl.OnPolicyLearner(asyncrl.PPO(), proxy, run=RUN, total_steps=total_steps)
        async for progress in learner:
            mean = "-" if progress.mean_return is None else f"{progress.mean_return:.1f}"
            print(f"{progress.env_steps} steps, mean return {mean}")
        # The run is complete, so its actors leave by themselves, and the task group ends.
        print((await broker.ledger()).explain())


async def main() -> None:
    total_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 8_192
    other = asyncio.create_task(application())
    try:
        await train(total_steps)
    finally:
        other.cancel()


if __name__ == "__main__":
    asyncio.run(main())
