"""The shortest complete loop: sample, record, build, validate, train, renew.

    python examples/train_tiny.py

A small recurrent model learns from rewards alone to repeat two digits. Replace the model, the task and the
sampler by yours; what lies between them stays as it is.
"""

from datetime import UTC, datetime
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

import provenance
from losses import stable_reinforce, token_logprobs
from provenance import MemoryLedger, Recorder, Trajectory, Turn
from provenance.builder import build_group
from provenance.ledger import recorded_sequences

SESSION = "train-tiny"
DIGITS, END, VOCABULARY, WIDTH = 2, 10, 11, 64
STEPS, PROMPTS, SAMPLES = 100, 16, 8


class Model(nn.Module):
    """Token ids (B, L) to hidden states (B, L, WIDTH); the head's weight is (VOCABULARY, WIDTH)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.body = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:  # noqa: D102 - said above
        hidden: Tensor = self.body(self.embedding(tokens))[0]
        return hidden


torch.manual_seed(0)
model = Model()
numbers = count()


@torch.no_grad()
def sample(prompt: list[int], num_samples: int, _: Any) -> list[dict[str, Any]]:
    """What a sampling service returns: an id, tokens, and the logprob of each when it was drawn."""
    tokens = torch.tensor([prompt] * num_samples)
    logprobs = []
    for _ in range(DIGITS):
        distribution = torch.distributions.Categorical(logits=model.head(model(tokens)[:, -1]))
        drawn = distribution.sample()  # type: ignore[no-untyped-call]
        logprobs.append(distribution.log_prob(drawn))  # type: ignore[no-untyped-call]
        tokens = torch.cat([tokens, drawn[:, None]], dim=1)
    drawn_logprobs = torch.stack(logprobs, dim=1)
    return [
        {"sequence_id": f"s{next(numbers)}", "tokens": t.tolist(), "logprobs": q.tolist()}
        for t, q in zip(tokens[:, len(prompt) :], drawn_logprobs, strict=True)
    ]


def main() -> None:
    torch.set_num_threads(1)
    ledger = MemoryLedger()  # SqlLedger("ledger.db") outlives the process
    recorder = Recorder(sample, ledger, session_id=SESSION, record_stability_info=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(STEPS + 1):
        datums, rewards = [], []
        for digits in torch.randint(0, 10, (PROMPTS, DIGITS)).tolist():
            prompt = [*digits, END]
            samples = recorder.sample(prompt, SAMPLES)
            group = recorded_sequences(ledger, [s["sequence_id"] for s in samples], SESSION)
            earned = [sum(a == b for a, b in zip(s.tokens, digits, strict=True)) / DIGITS for s in group]
            rollouts = [
                Trajectory(turns=[Turn(sequence=s)], reward=reward)
                for s, reward in zip(group, earned, strict=True)
            ]
            datums += build_group(rollouts).datums
            rewards += earned

        batch = provenance.validate(datums, ledger=ledger, session=SESSION)

        hidden = model(torch.tensor(batch.tokens, dtype=torch.int64).view(len(batch), -1)).flatten(0, 1)
        logprobs = token_logprobs(hidden, model.head.weight, torch.tensor(batch.inputs["target_tokens"]))
        out = stable_reinforce(batch, logprobs)
        optimizer.zero_grad()
        out.loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        ledger.renew(batch.sequence_ids, SESSION, datetime.now(UTC))

        if step % 20 == 0:
            # On policy the loss is 0 whatever is learnt: what shows is the reward, and how it still varies.
            reward, advantage = sum(rewards) / len(rewards), out.metrics["advantage_abs:mean"]
            print(f"step {step:3}: reward {reward:.2f}, mean size of an advantage {advantage:.2f}")


if __name__ == "__main__":
    main()
