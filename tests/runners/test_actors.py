"""Reinforcement learning: actors in the background play games of any length for a learner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from tests.resources.queues.modes import drained, numbers

GAME = {"number": "i64[]", "states": "f32[n,2]", "actions": "i64[n]", "rewards": "f32[n]"}
PARTS = ("states", "actions", "rewards")


class Walk:
    """A walk to the left or right that ends too far off; there are rewards to the right."""

    def __init__(self) -> None:
        self.place, self.moves = 0, 0

    def reset(self, number: Any) -> Any:
        self.place, self.moves = int(number) % 5 - 2, 0
        return self.state

    def step(self, action: Any) -> tuple[Any, float, bool]:
        self.place += 1 if int(action) else -1
        self.moves += 1
        return self.state, float(1 + max(self.place, 0)), abs(self.place) > 3 or self.moves == 20

    @property
    def state(self) -> Any:
        return np.array([self.place, 1], np.float32)


def player(policy: Any) -> Callable[[Any], Any]:
    """A function that plays a game, in an environment of its own."""
    walk, draws = Walk(), ef.random.Generator()

    def reset(number: Any) -> Any:
        draws.state = {"seed": int(number), "ticket": 0}
        return walk.reset(number)

    def play(number: Any) -> Any:
        state, over = ef.py_call(reset, "f32[2]", number), False
        states, actions, rewards = [], [], []
        while not over:
            action = draws.categorical((), policy(state))
            states.append(state)
            actions.append(action)
            state, reward, over = ef.py_call(walk.step, ("f32[2]", "f32[]", "bool[]"), action)
            rewards.append(reward)
        stacked = [ef.stack(states), ef.stack(actions), ef.stack(rewards)]
        return {"number": number, **dict(zip(PARTS, stacked, strict=True))}

    return play


def actor(policy: Any, given: ef.Queue, played: ef.Queue) -> Any:
    play = player(policy)
    return ef.trace(lambda: played.enqueue(play(given.dequeue())))


def surprise(policy: Any, games: Any) -> Any:
    """The loss whose gradient is the policy gradient, of padded games ``[games, steps]``."""
    start = ef.zeros(games["rewards"].shape[0])
    back = ef.scan(lambda g, r: (r + 0.9 * g,) * 2, start, games["rewards"].T, reverse=True)[1]
    returns = back.T
    weights = ef.where(games["rewards"] > 0, returns - returns.mean(axis=0), 0.0)
    scores = policy(games["states"]).reshape(-1, 2)
    lost = ef.nn.functional.cross_entropy(scores, games["actions"].reshape(-1), reduction="none")
    return (lost * weights.reshape(-1)).sum()


def linear() -> Any:
    policy = ef.nn.Linear(2, 2, bias=False)
    policy.weight.assign([[0.1, -0.2], [0.3, 0.05]])
    return policy


def test_games_of_all_lengths_are_one_trace() -> None:
    play = player(linear())
    traced = ef.trace(play)
    lengths = set()
    for number in range(25):
        game, same = traced(number), play(number)
        assert game["number"] == same["number"] == number
        for part in PARTS:
            assert numbers(game[part]) == numbers(same[part])
        lengths.add(len(game["states"]))
    assert len(lengths) > 6
    assert len(traced.traces) == 1


def test_the_gradient_is_that_of_a_loop_by_hand() -> None:
    """Games of several lengths, padded by the queue, compared with sums over their steps."""
    policy = linear()
    play, played = ef.trace(player(policy)), ef.Queue(None, GAME, kind="padding")
    games = [play(number) for number in range(6)]
    for game in games:
        played.enqueue(game)

    @ef.trace
    def gradient() -> Any:
        batch = played.dequeue_many(len(games))
        (weight_gradient,) = ef.grad(lambda: surprise(policy, batch), wrt=[policy.weight])()
        return weight_gradient

    weight = policy.weight.numpy().astype(np.float64)
    returns = np.zeros((6, max(len(g["rewards"]) for g in games)))
    for row, game in zip(returns, games, strict=True):
        total = 0.0
        for t in reversed(range(len(game["rewards"]))):
            row[t] = total = float(game["rewards"][t]) + 0.9 * total
    expected = np.zeros((2, 2))
    for row, game in zip(returns, games, strict=True):
        for t, action in enumerate(numbers(game["actions"])):
            state = game["states"][t].numpy().astype(np.float64)
            odds = np.exp(weight @ state)
            change = odds / odds.sum() - np.eye(2)[action]  # of -log p, by the scores
            expected += (row[t] - returns[:, t].mean()) * np.outer(change, state)
    np.testing.assert_allclose(gradient().numpy(), expected, rtol=1e-4)


def train(actors: int, count: int, batch: int = 4) -> tuple[list[float], list[list[float]], Any]:
    """The returns of all games, the final weights, and the learner."""
    policy = linear()
    given, played = ef.Queue(None, ef.tensor(0)), ef.Queue(batch, GAME, kind="padding")
    optimiser = ef.optim.Adam([policy.weight], 0.05)

    @ef.trace
    def learn() -> Any:
        games = played.dequeue_many(batch)
        order = ef.argsort(games["number"])
        games = {part: games[part][order] for part in PARTS}
        gradients = ef.grad(lambda: surprise(policy, games), wrt=[policy.weight])()
        optimiser.update(gradients)
        return games["rewards"].sum(axis=1)

    runners = [ef.spawn(actor(policy, given, played)) for _ in range(actors)]
    returns: list[float] = []
    while len(returns) < count:
        given.enqueue_many(range(len(returns), len(returns) + batch))
        returns += numbers(learn())
    given.close()
    assert all(runner.join() for runner in runners)
    assert sum(runner.steps for runner in runners) == count
    assert not list(drained(played))
    return returns, numbers(policy.weight.value), learn


def test_who_plays_makes_no_difference() -> None:
    alone, crowd = train(1, 80), train(3, 80)
    assert alone[:2] == crowd[:2]
    assert len(crowd[2].traces) == 1
    assert np.mean(alone[0][-20:]) > 1.5 * np.mean(alone[0][:20])


@pytest.mark.parametrize("actors", [1, 4])
def test_no_game_is_lost(actors: int) -> None:
    """More games than there is room for, and a learner that takes all that have come."""
    policy, count = linear(), 60
    given, played = ef.Queue(None, ef.tensor(0)), ef.Queue(3, GAME, kind="padding")
    runners = [ef.spawn(actor(policy, given, played)) for _ in range(actors)]
    given.enqueue_many(range(count))
    given.close()
    take, seen = ef.trace(lambda: played.dequeue_many(5)), {}
    for _ in range(count // 5):
        games = take()
        for row, number in enumerate(numbers(games["number"])):
            assert number not in seen
            seen[number] = [numbers(games[part][row]) for part in PARTS]
    assert all(runner.join() for runner in runners)
    assert sorted(seen) == list(range(count))
    play = player(policy)
    for number, parts in seen.items():
        game = play(number)
        steps = len(game["states"])
        for part, padded in zip(PARTS, parts, strict=True):
            assert padded[:steps] == numbers(game[part])
            assert not np.any(padded[steps:])  # padding
