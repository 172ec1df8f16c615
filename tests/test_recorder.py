"""The recorder, around the official client and around functions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tinker
from _server import SESSION, Server, running, service_of
from tinker import types

import provenance
from provenance import LedgerError, MemoryLedger, Recorder, SchemaError
from provenance.sequences import ABSENT, microseconds

# The SDK leaves its connections to the garbage collector, which comes during some test.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:Exception ignored in. <(socket|function _Sel).*:pytest.PytestUnraisableExceptionWarning"
)

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
PARAMS = types.SamplingParams(max_tokens=8, temperature=0.5, top_p=0.75, top_k=20, seed=3)


@dataclass
class Sequence:
    sequence_id: str = "f:1"
    tokens: Any = (21, 22)
    logprobs: Any = (-0.5, -0.25)
    stop_reason: str = "stop"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def service(server: Server) -> Iterator[tinker.ServiceClient]:
    yield from service_of(server)


@pytest.fixture(scope="module")
def clients(service: tinker.ServiceClient) -> dict[bool, tinker.SamplingClient]:
    return {
        wanted: service.create_sampling_client(base_model="m", record_stability_info=wanted).result()
        for wanted in (True, False)
    }


def around(sampler: Any, ledger: Any, **known: Any) -> Recorder:
    return Recorder(sampler, ledger, **{"session_id": "s", "record_stability_info": True, **known})


def test_what_the_official_client_samples_is_recorded(server: Server, clients: dict[bool, Any]) -> None:
    ledger = MemoryLedger()
    recorder = Recorder(clients[True], ledger, policy_version=4, clock=lambda: NOON)
    response = recorder.sample(types.ModelInput.from_ints([1, 2, 3]), 4, PARAMS).result()
    assert isinstance(response, types.SampleResponse)
    ids = [sequence.sequence_id for sequence in response.sequences]
    table = ledger.lookup(ids, SESSION)
    assert len(set(ids)) == len(ledger) == 4
    for i, sequence_id in enumerate(ids):
        tokens, logprobs = server.sampled[sequence_id]
        assert table.tokens(i).tolist() == tokens
        assert table.sampled_logprobs(i).tolist() == logprobs
        assert table.prompt(i).tolist() == [1, 2, 3]
    assert set(table.session_id) == {SESSION}
    assert set(table.model) == {clients[True].get_base_model()}
    assert set(table.policy_version) == {"4"}
    assert set(table.stop_reason) == {"length"}
    assert table.record_stability_info.all()
    assert set(table.sampled_at) == {microseconds(NOON)}
    assert set(zip(table.temperature, table.top_p, table.top_k, table.seed, strict=True)) == {
        (0.5, 0.75, 20, 3)
    }


def test_the_official_client_can_be_awaited(clients: dict[bool, Any]) -> None:
    ledger = MemoryLedger()
    recorder = Recorder(clients[False], ledger)

    async def sample() -> list[types.SampleResponse]:
        prompts = [types.ModelInput.from_ints([i]) for i in range(6)]
        return await asyncio.gather(*(recorder.sample(prompt, 2, PARAMS) for prompt in prompts))

    responses = asyncio.run(sample())
    ids = [sequence.sequence_id for response in responses for sequence in response.sequences]
    table = ledger.lookup(ids, SESSION)
    assert len(ledger) == 12
    assert [table.prompt(i).tolist() for i in range(12)] == [[i // 2] for i in range(12)]
    assert not table.record_stability_info.any()


def test_a_future_that_is_asked_twice_records_once(clients: dict[bool, Any]) -> None:
    ledger = MemoryLedger()
    pending = Recorder(clients[True], ledger).sample(types.ModelInput.from_ints([1]), 1, PARAMS)
    assert pending.result() is pending.result(timeout=5)
    assert len(ledger) == 1


def test_a_future_of_a_client_is_refused_with_the_remedy(service: tinker.ServiceClient) -> None:
    future = service.create_sampling_client(base_model="m")
    with pytest.raises(LedgerError, match=r"call \.result\(\) on it"):
        Recorder(future, MemoryLedger())
    assert Recorder(future.result(), MemoryLedger(), record_stability_info=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"record_stability_info": True},
            "stability_info is True, but the sampling client says False",
        ),
        ({"session_id": "other"}, f"session_id is 'other', but the sampling client says '{SESSION}'"),
    ],
)
def test_what_contradicts_the_client_is_refused(
    clients: dict[bool, Any], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(LedgerError, match=message):
        Recorder(clients[False], MemoryLedger(), **given)


@pytest.mark.parametrize("missing", ["session_id", "record_stability_info"])
def test_a_function_knows_nothing_by_itself(missing: str) -> None:
    with pytest.raises(LedgerError, match=rf"no {missing}, .*Recorder\(\.\.\., {missing}=\.\.\.\)"):
        around(lambda *_: [], MemoryLedger(), **{missing: None})


@pytest.mark.parametrize(
    "response",
    [
        SimpleNamespace(sequences=[Sequence()]),
        {"sequences": [Sequence()]},
        [Sequence()],
        [
            {
                "sequence_id": "f:1",
                "tokens": [21, 22],
                "logprobs": np.array([-0.5, -0.25]),
                "stop_reason": "stop",
            }
        ],
    ],
    ids=["object", "mapping", "list", "dicts"],
)
def test_a_function_may_return_objects_or_mappings(response: Any) -> None:
    ledger = MemoryLedger()
    recorder = around(lambda prompt, n, params: response, ledger)
    assert recorder.sample([11, 12], 1, {"temperature": 1, "seed": 5}) is response
    table = ledger.lookup(["f:1"], "s")
    assert table.known.all()
    assert table.prompt(0).tolist() == [11, 12]
    assert table.tokens(0).tolist() == [21, 22]
    assert (table.temperature[0], table.seed[0], table.top_k[0]) == (1.0, 5, ABSENT)
    assert (table.model[0], table.policy_version[0], table.stop_reason[0]) == (None, None, "stop")


def test_arguments_reach_the_sampler_as_they_are() -> None:
    seen: list[Any] = []
    prompt, params = [1, 2], object()

    def sample(*args: Any, **options: Any) -> list[Any]:
        seen.append((args, options))
        return []

    around(sample, MemoryLedger()).sample(prompt, 3, params, topk_sample_logprobs=2)
    assert seen == [((prompt, 3, params), {"topk_sample_logprobs": 2})]


def test_an_async_function_gives_an_awaitable() -> None:
    ledger = MemoryLedger()

    async def sample(prompt: Any, n: int, params: Any) -> list[Sequence]:
        await asyncio.sleep(0)
        return [Sequence()]

    assert asyncio.run(around(sample, ledger).sample([1])) == [Sequence()]
    assert len(ledger) == 1


def test_threads_may_share_a_recorder() -> None:
    ledger, numbers, lock = MemoryLedger(), iter(range(10_000)), threading.Lock()

    def sample(prompt: Any, n: int, params: Any) -> list[Sequence]:
        with lock:
            return [Sequence(sequence_id=f"f:{next(numbers)}") for _ in range(n)]

    recorder = around(sample, ledger)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(recorder.sample, [i, i + 1], 3) for i in range(200)]
        assert all(len(future.result()) == 3 for future in futures)
        pending = around(lambda prompt, n, params: pool.submit(sample, prompt, n, params), ledger)
        assert len(pending.sample([1], 5).result()) == 5

        async def wait() -> list[Sequence]:
            return await pending.sample([1], 5)

        assert len(asyncio.run(wait())) == 5
    assert len(ledger) == 610


@pytest.mark.parametrize(
    ("chunk", "length"),
    [
        (types.ImageChunk(data=b"png", format="png", expected_tokens=3), 3),
        (provenance.ImageChunk(data=b"png", format="png", expected_tokens=3), 3),
        (types.ImageChunk(data=b"png", format="png"), None),
        (provenance.ImageChunk(data=b"png", format="png"), None),
        (provenance.DmelChunk(dmel=b"\x00\x02\x05\x01"), 5),
    ],
)
def test_images_and_audio_in_a_prompt_are_positions_without_text(chunk: Any, length: int | None) -> None:
    ledger, asked = MemoryLedger(), []

    def sample(prompt: Any, n: int, params: Any) -> list[Sequence]:
        asked.append(prompt)
        return [Sequence()]

    text: Any = provenance if isinstance(chunk, provenance.ImageChunk | provenance.DmelChunk) else types
    chunks = [text.EncodedTextChunk(tokens=[1, 2]), chunk, text.EncodedTextChunk(tokens=[3])]
    prompt = text.ModelInput(chunks=chunks)
    recorder = around(sample, ledger)
    if length is None:
        with pytest.raises(SchemaError, match=r"chunks\[1\]: cannot be recorded, .*expected_tokens"):
            recorder.sample(prompt)
        assert asked == []
    else:
        recorder.sample(prompt)
        assert ledger.lookup(["f:1"], "s").prompt(0).tolist() == [1, 2, *[-1] * length, 3]


@pytest.mark.parametrize(
    ("response", "error", "message"),
    [
        ([Sequence(logprobs=None)], SchemaError, "'f:1' came back without logprobs"),
        ([Sequence(logprobs=[-0.5])], SchemaError, "logprobs"),
        ([Sequence(logprobs=[-0.5, float("nan")])], SchemaError, "logprobs"),
        ([Sequence(sequence_id="")], SchemaError, "sequence_id"),
        ([Sequence(), Sequence(tokens=[1, 2])], LedgerError, "'f:1' of session 's' is recorded already"),
        (None, SchemaError, "returned a NoneType, expected a response"),
        ("text", SchemaError, "returned a str, expected a response"),
    ],
)
def test_what_cannot_be_recorded_is_not_handed_out(
    response: Any, error: type[Exception], message: str
) -> None:
    ledger = MemoryLedger()
    with pytest.raises(error, match=message):
        around(lambda *_: response, ledger).sample([1])
    assert len(ledger) == 0


def test_what_cannot_sample_is_refused() -> None:
    with pytest.raises(LedgerError, match="7 cannot sample: expected a function or an object"):
        around(7, MemoryLedger())


def test_an_iterator_is_handed_out_as_a_list() -> None:
    ledger = MemoryLedger()
    assert around(lambda *_: iter([Sequence()]), ledger).sample([1]) == [Sequence()]
    assert len(ledger) == 1


@pytest.mark.parametrize("prompt", [[1, 2], np.array([1, 2]), types.ModelInput.from_ints([1, 2])])
def test_what_becomes_of_the_prompt_later_changes_no_record(prompt: Any) -> None:
    ledger = MemoryLedger()

    def sample(given: Any, n: int, params: Any) -> list[Sequence]:
        if isinstance(given, list):
            given.append(99)
        elif isinstance(given, np.ndarray):
            given[:] = 7
        return [Sequence()]

    around(sample, ledger).sample(prompt)
    assert ledger.lookup(["f:1"], "s").prompt(0).tolist() == [1, 2]


@pytest.mark.parametrize(
    "request_",
    [
        {"prompt": "text"},
        {"prompt": None},
        {"prompt": [[1, 2]]},
        {"prompt": [0.5]},
        {"sampling_params": {"temperature": float("nan")}},
        {"sampling_params": {"seed": 2**63}},
        {"known": {"session_id": ""}},
        {"known": {"policy_version": 1.5}},
        {"known": {"record_stability_info": 1}},
        {"known": {"clock": lambda: NOON.replace(tzinfo=None)}},
    ],
)
def test_what_cannot_be_recorded_is_refused_before_it_is_sampled(request_: dict[str, Any]) -> None:
    asked: list[Any] = []
    recorder = around(lambda *given: asked.append(given) or [], MemoryLedger(), **request_.pop("known", {}))
    with pytest.raises(SchemaError):
        recorder.sample(**{"prompt": [1], **request_})
    assert asked == []


class Awaitable:
    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return [Sequence()]


class Result:
    def result(self) -> list[Sequence]:
        return [Sequence()]


@pytest.mark.parametrize(
    "answer", [Awaitable, Result, lambda: [Sequence()]], ids=["awaitable", "result", "list"]
)
def test_whatever_a_sampler_returns_can_be_awaited_where_it_says_so(answer: Any) -> None:
    ledger = MemoryLedger()

    async def sample() -> Any:
        pending = around(lambda *_: answer(), ledger).sample([1])
        return pending if isinstance(pending, list) else await pending

    assert asyncio.run(sample()) == [Sequence()]
    assert len(ledger) == 1


def test_sample_async_is_there_for_who_calls_the_client_so(clients: dict[bool, Any]) -> None:
    ledger = MemoryLedger()
    prompt = types.ModelInput.from_ints([1])
    response = asyncio.run(
        Recorder(clients[True], ledger).sample_async(prompt, num_samples=3, sampling_params=PARAMS)
    )
    assert len(response.sequences) == len(ledger) == 3
