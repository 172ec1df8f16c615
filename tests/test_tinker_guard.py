"""The guard around the official client, which talks to a server on loopback: steps refused and accepted."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinker
import torch
from _server import MODEL, SESSION, Server, running, service_of
from tinker import types
from tinker.proto import tinker_public_pb2 as pb

import provenance
from provenance import LedgerError, MemoryLedger, Recorder, SchemaError, SqlLedger, ValidationError
from provenance.integrations.tinker import from_tinker, guard, request_bytes, to_tinker
from provenance.integrations.tinker._own import own
from provenance.sequences import ABSENT, microseconds

# The SDK leaves its connections to the garbage collector, which comes during some test.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:Exception ignored in. <(socket|function _Sel).*:pytest.PytestUnraisableExceptionWarning"
)

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=3)
LOSS = "stable_reinforce"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def service(server: Server) -> Iterator[tinker.ServiceClient]:
    yield from service_of(server)


@pytest.fixture(scope="module")
def client(service: tinker.ServiceClient) -> tinker.TrainingClient:
    return service.create_lora_training_client(base_model="m").result()


@pytest.fixture(scope="module")
def sampler(service: tinker.ServiceClient) -> tinker.SamplingClient:
    return service.create_sampling_client(base_model="m", record_stability_info=True).result()


@pytest.fixture(autouse=True)
def fresh(server: Server) -> None:
    server.trained.clear()
    server.requests.clear()
    server.refusal = None
    server.open.set()


def rollout(
    sampler: tinker.SamplingClient, ledger: Any, count: int = 4
) -> tuple[list[tinker.Datum], list[str]]:
    """Sampled, recorded and built into datums: the first half of a step."""
    prompt = [101, 102, 103]
    recorder = Recorder(sampler, ledger, clock=lambda: NOON)
    response = recorder.sample(types.ModelInput.from_ints(prompt), count, types.SamplingParams()).result()
    datums = [single_turn(prompt, s.sequence_id, s.tokens, s.logprobs) for s in response.sequences]
    return datums, [sequence.sequence_id for sequence in response.sequences]


def single_turn(prompt: list[int], name: str, tokens: list[int], logprobs: Any, **given: Any) -> tinker.Datum:
    full, size = [*prompt, *tokens], len(tokens)
    inputs = {
        "target_tokens": full[1:],
        "logprobs": [0.0] * (len(prompt) - 1) + list(logprobs),
        "advantages": [0.0] * (len(prompt) - 1) + [0.5] * size,
    }
    return tinker.Datum(
        model_input=types.ModelInput.from_ints(full[:-1]), loss_fn_inputs={**inputs, **given}
    ).with_provenance(
        model_input=[
            types.PromptProvenanceSpan(sequence_id=name, length=len(prompt)),
            types.SampledProvenanceSpan(sequence_id=name, length=size - 1),
        ],
        loss_fn_inputs=[
            types.PromptProvenanceSpan(sequence_id=name, offset=1, length=len(prompt) - 1),
            types.SampledProvenanceSpan(sequence_id=name, length=size),
        ],
    )


def last_use(ledger: Any, ids: list[str]) -> set[int]:
    return set(ledger.lookup(ids, SESSION).last_used_at.tolist())


def guarded(client: Any, ledger: Any, **options: Any) -> Any:
    return guard(client, ledger=ledger, clock=lambda: LATER, **options)


def test_one_step_of_training(server: Server, client: Any, sampler: Any) -> None:
    ledger = MemoryLedger()
    datums, ids = rollout(sampler, ledger)
    _, siblings = rollout(sampler, ledger)
    training = guarded(client, ledger)
    pending = training.forward_backward(datums, LOSS, {"kl_coeff": 0.02})
    step = training.optim_step(types.AdamParams(learning_rate=1e-4))
    assert isinstance(pending, tinker.APIFuture)
    assert pending.result(timeout=30).metrics["loss:sum"] == len(datums)
    assert step.result().metrics == {"step": 1.0}
    assert last_use(ledger, ids) == {microseconds(LATER)}
    assert last_use(ledger, siblings) == {ABSENT}
    (sent,) = server.trained
    number = pb.ForwardBackwardRequest.FromString(sent).seq_id
    assert sent == request_bytes(
        datums, model_id=MODEL, seq_id=number, loss_fn=LOSS, loss_fn_config={"kl_coeff": 0.02}
    )


@contextmanager
def nothing_encoded(client: tinker.TrainingClient) -> Iterator[None]:
    """The SDK's thread does nothing meanwhile: what was submitted is encoded afterwards."""
    done = threading.Event()

    async def wait() -> None:
        done.wait(30)

    client.holder.run_coroutine_threadsafe(wait())
    try:
        yield
    finally:
        done.set()


def write_spans(datum: tinker.Datum) -> None:
    datum.loss_fn_input_spans.clear()


def write_array(datum: tinker.Datum) -> None:
    datum.loss_fn_inputs["logprobs"].to_numpy()[:] = np.nan


def write_shape(datum: tinker.Datum) -> None:
    datum.loss_fn_inputs["logprobs"].shape.append(2)


def write_inputs(datum: tinker.Datum) -> None:
    del datum.loss_fn_inputs["advantages"]


@pytest.mark.parametrize("write", [write_spans, write_array, write_shape, write_inputs])
def test_what_was_checked_is_sent_whatever_is_written_to_the_datums(
    server: Server, client: Any, sampler: Any, write: Callable[[tinker.Datum], None]
) -> None:
    ledger = MemoryLedger()
    datums, _ = rollout(sampler, ledger)
    request = {"model_id": MODEL, "loss_fn": LOSS, "loss_fn_config": {"kl_coeff": 0.02}}
    before = pb.ForwardBackwardRequest.FromString(request_bytes(datums, seq_id=1, **request))
    config = {"kl_coeff": 0.02}
    with nothing_encoded(client):
        pending = guarded(client, ledger).forward_backward(datums, LOSS, config)
        config["kl_coeff"] = -1.0
        write(datums[0])
    pending.result()
    (sent,) = map(pb.ForwardBackwardRequest.FromString, server.trained)
    before.seq_id = sent.seq_id
    assert sent == before


@pytest.mark.parametrize("kind", ["numpy", "a view", "torch"])
def test_a_buffer_may_be_filled_for_the_next_batch(
    server: Server, client: Any, sampler: Any, kind: str
) -> None:
    ledger = MemoryLedger()
    _, (name,) = rollout(sampler, ledger, 1)
    tokens, logprobs = server.sampled[name]
    buffer = np.zeros((2, 2 + len(tokens)), np.float32)
    buffer[0, 2:] = 0.5
    given = {"numpy": buffer[0].copy(), "a view": buffer[0], "torch": torch.from_numpy(buffer[0])}[kind]
    datum = single_turn([101, 102, 103], name, tokens, logprobs, advantages=given)
    with nothing_encoded(client):
        pending = guarded(client, ledger).forward_backward([datum], LOSS)
        given[:] = np.nan
    pending.result()
    assert np.isnan(datum.loss_fn_inputs["advantages"].to_numpy()).all()
    (sent,) = map(pb.ForwardBackwardRequest.FromString, server.trained)
    advantages = np.frombuffer(sent.data[0].loss_fn_inputs["advantages"].dense, np.float32)
    assert advantages.tolist() == [0.0, 0.0] + [0.5] * len(tokens)


def test_the_guard_s_datum_shares_no_loss_input() -> None:
    image = types.ImageChunk(data=b"\x89PNG", format="png", expected_tokens=2)
    values, rows, columns, shape = np.array([5, 6]), [0, 1, 2], [0, 1], [2, 4]
    sparse = types.TensorData(values, "int64", shape, rows, columns)
    datum = tinker.Datum(
        model_input=types.ModelInput(chunks=[types.EncodedTextChunk(tokens=(1, 2)), image]),
        loss_fn_inputs={"target_tokens": sparse},
    )
    owned = own(datum)
    held = owned.loss_fn_inputs["target_tokens"]
    values[:] = rows[:] = columns[:] = shape[:] = [9, 9]
    assert (held.sparse_crow_indices, held.sparse_col_indices) == ([0, 1, 2], [0, 1])
    assert (held.data, held.shape, held.dtype) == ([5, 6], [2, 4], "int64")
    assert owned.model_input is datum.model_input


def test_it_is_the_same_client(server: Server, client: Any, sampler: Any) -> None:
    ledger = MemoryLedger()
    datums, _ = rollout(sampler, ledger)
    training = guarded(client, ledger)
    assert isinstance(training, tinker.TrainingClient)
    assert (training.model_id, training.holder, training.get_info()) == (
        MODEL,
        client.holder,
        client.get_info(),
    )
    training.forward_backward(datums, LOSS).result()
    client.forward_backward(datums, LOSS).result()
    training.forward(datums, LOSS).result()
    training.optim_step(types.AdamParams()).result()
    numbers = [pb.ForwardBackwardRequest.FromString(body).seq_id for body in server.trained]
    numbers += [body["seq_id"] for path, body in server.requests if path == "optim_step"]
    assert numbers == list(range(numbers[0], numbers[0] + 4))
    training.note = "one state"
    assert client.note == "one state"


def test_a_bad_datum_stops_the_whole_batch(server: Server, client: Any, sampler: Any) -> None:
    ledger = MemoryLedger()
    datums, ids = rollout(sampler, ledger, 1500)
    full = datums[-1].model_input.to_ints()
    size = ledger.lookup(ids[-1:], SESSION).token_length[0]
    tokens = [*full[3:], 999_999]
    datums[-1] = single_turn(full[:3], ids[-1], tokens, [-0.5] * int(size))
    training = guarded(client, ledger)
    with pytest.raises(ValidationError, match=r"1 of 1500 datums break .*row 1499.*SEQ004") as raised:
        training.forward_backward(datums, LOSS)
    assert raised.value.report.counts["SEQ004"].datums == 1
    assert server.trained == []
    assert last_use(ledger, ids) == {ABSENT}
    # The client is none the worse for it, and sends the same batch in two chunks without the datum.
    assert training.forward_backward(datums[:-1], LOSS).result().metrics["loss:sum"] == 1499
    assert len(server.trained) == 2
    assert last_use(ledger, ids[:-1]) == {microseconds(LATER)}


def test_what_the_server_refuses_renews_nothing(server: Server, client: Any, sampler: Any) -> None:
    ledger = MemoryLedger()
    datums, ids = rollout(sampler, ledger)
    server.refusal = "not today"
    pending = guarded(client, ledger).forward_backward(datums, LOSS)
    with pytest.raises(tinker.RequestFailedError, match="not today"):
        pending.result()
    assert len(server.trained) == 1
    assert last_use(ledger, ids) == {ABSENT}


def test_a_request_renews_when_it_is_done_though_nobody_asks(
    server: Server, client: Any, sampler: Any
) -> None:
    ledger = MemoryLedger()
    datums, ids = rollout(sampler, ledger)
    server.open.clear()
    pending = guarded(client, ledger).forward_backward(datums, LOSS)
    deadline = time.monotonic() + 10
    while not server.trained and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(TimeoutError):
        pending.result(timeout=0.05)
    assert last_use(ledger, ids) == {ABSENT}
    server.open.set()
    while last_use(ledger, ids) == {ABSENT} and time.monotonic() < deadline:
        time.sleep(0.01)
    assert last_use(ledger, ids) == {microseconds(LATER)}


@pytest.mark.filterwarnings("ignore:DEPRECATED. TrainingClient.forward_backward_async:FutureWarning")
def test_the_async_method_is_guarded_too(server: Server, client: Any, sampler: Any) -> None:
    ledger = MemoryLedger()
    datums, ids = rollout(sampler, ledger)
    training = guarded(client, ledger)

    async def steps() -> Any:
        with pytest.raises(ValidationError, match="CFG001"):
            await training.forward_backward_async(datums, LOSS, {"kl_coeff": -1.0})
        assert server.trained == []
        pending = await training.forward_backward_async(datums, LOSS)
        return await pending

    assert asyncio.run(steps()).metrics["loss:sum"] == len(datums)
    assert last_use(ledger, ids) == {microseconds(LATER)}


def test_a_ledger_that_cannot_be_renewed_is_an_error(
    server: Server, client: Any, sampler: Any, tmp_path: Path
) -> None:
    path = tmp_path / "sequences.db"
    with SqlLedger(path) as ledger:
        datums, _ = rollout(sampler, ledger)
        server.open.clear()
        pending = guarded(client, ledger).forward_backward(datums, LOSS)
        for file in tmp_path.iterdir():
            file.write_bytes(b"no database any more" * 400)
        server.open.set()
        with pytest.raises(LedgerError, match="the server did the training request, but the ledger"):
            pending.result()


def test_whatever_a_ledger_raises_says_that_the_request_was_done(client: Any, sampler: Any) -> None:
    class Offline(MemoryLedger):
        def renew(self, *given: Any, **named: Any) -> None:
            raise ConnectionError("down")

    ledger = Offline()
    datums, _ = rollout(sampler, ledger)
    with pytest.raises(LedgerError, match=r"the server did the training request, but .* down"):
        guarded(client, ledger).forward_backward(datums, LOSS).result()


def test_what_the_sdk_cannot_send_is_refused_before_it_counts_the_request(
    server: Server, client: Any, sampler: Any
) -> None:
    ledger = MemoryLedger()
    datums, _ = rollout(sampler, ledger)
    training = guarded(client, ledger)
    with pytest.raises(SchemaError, match=r"is no datum, expected a tinker\.Datum or a provenance\.Datum"):
        training.forward_backward([*datums, from_tinker(datums[0]).model_dump(mode="json")], LOSS)
    training.forward_backward(datums, LOSS).result(timeout=60)
    assert len(server.trained) == 1


def test_images_of_unknown_length_pass_where_there_are_no_spans(server: Server, client: Any) -> None:
    image = types.ImageChunk(data=b"\x89PNG", format="png")
    prompt = types.ModelInput(chunks=[types.EncodedTextChunk(tokens=[1]), image])
    inputs = {"target_tokens": [0, 0, 3], "weights": [0.0, 0.0, 1.0]}
    datum = tinker.Datum(model_input=prompt, loss_fn_inputs=inputs)
    guarded(client, MemoryLedger()).forward_backward([datum], "cross_entropy").result()
    datum.loss_fn_inputs["weights"].to_numpy()[2] = np.nan
    with pytest.raises(ValidationError, match=r"weights\[2\]: VAL001"):
        guarded(client, MemoryLedger()).forward_backward([datum], "cross_entropy")


def test_a_function_of_ones_own_is_not_guarded(client: Any, sampler: Any) -> None:
    ledger = MemoryLedger()
    datums, _ = rollout(sampler, ledger)
    seen = []

    class Older(type(client)):  # type: ignore[misc]  # a class that is known at run time
        def forward_backward_custom(self, data: Any, loss_fn: Any) -> Any:
            seen.append(type(self))
            return self.forward_backward(data, "cross_entropy")  # as SDK 0.27 does, with a surrogate

    older = object.__new__(Older)
    older.__dict__ = client.__dict__
    training = guarded(older, ledger)
    training.forward_backward_custom(datums, lambda *_: None).result()
    assert seen == [Older]
    with pytest.raises(ValidationError):  # a loss by name is a request like others
        training.forward_backward_custom(datums, "handle")


def test_subclasses_of_spans_and_datums_are_what_they_are(client: Any, sampler: Any) -> None:
    class Span(types.SampledProvenanceSpan):
        pass

    class Ours(provenance.Datum, frozen=True):
        pass

    ledger = MemoryLedger()
    datums, _ = rollout(sampler, ledger, 2)
    last = datums[0].loss_fn_input_spans[-1]
    spans = [*datums[0].loss_fn_input_spans[:-1], Span(**vars(last))]
    ours = Ours.model_validate(from_tinker(datums[1]).model_dump())
    assert to_tinker(ours).loss_fn_input_spans == datums[1].loss_fn_input_spans
    both = [replace(datums[0], loss_fn_input_spans=spans), ours]
    guarded(client, ledger).forward_backward(both, LOSS).result()


def test_what_the_sdk_converts_is_caught(server: Server, client: Any, sampler: Any) -> None:
    ledger = MemoryLedger()
    (datum,), (name,) = rollout(sampler, ledger, 1)
    tokens, logprobs = server.sampled[name]
    training = guarded(client, ledger)
    prompt = [101, 102, 103]
    # None becomes NaN, which is seen.
    nothing = single_turn(prompt, name, tokens, [None, *logprobs[1:]])
    assert np.isnan(nothing.loss_fn_inputs["logprobs"].data[2])
    with pytest.raises(ValidationError, match=r"logprobs\[2\]: VAL001"):
        training.forward_backward([nothing], LOSS)
    # A fraction is cut, and the SDK's datum does not say so: the ledger knows what was sampled.
    last = 1 + len(tokens)
    changed = [102, 103, *tokens[:-1], tokens[-1] + 1.7]
    cut = single_turn(prompt, name, tokens, logprobs, target_tokens=changed)
    assert cut.loss_fn_inputs["target_tokens"].data[last] == tokens[-1] + 1
    with pytest.raises(ValidationError, match=rf"target_tokens\[{last}\]: SEQ004"):
        training.forward_backward([cut], LOSS)
    # A datum of ours does not come into being.
    with pytest.raises(SchemaError, match=r"INP003"):
        provenance.Datum(
            model_input=provenance.ModelInput.from_ints(prompt),
            loss_fn_inputs={"target_tokens": [2.7, 1, 2]},
        )
    assert server.trained == []
    training.forward_backward([datum], LOSS).result()
    assert len(server.trained) == 1


def test_datums_of_ours_are_sent_as_the_sdks(server: Server, client: Any, sampler: Any) -> None:
    ledger = MemoryLedger()
    datums, _ = rollout(sampler, ledger)
    training = guarded(client, ledger)
    ours = [from_tinker(datum) for datum in datums]
    training.forward_backward((datum for datum in ours), LOSS).result()
    number = pb.ForwardBackwardRequest.FromString(server.trained[0]).seq_id
    assert server.trained == [request_bytes(datums, model_id=MODEL, seq_id=number, loss_fn=LOSS)]
    assert to_tinker(ours[0]).model_input_spans == datums[0].model_input_spans


def test_the_loss_of_the_call_chooses_the_contract(server: Server, client: Any) -> None:
    ledger = MemoryLedger()
    training = guarded(client, ledger)

    def example(weight: float) -> tinker.Datum:
        inputs = {"target_tokens": [2, 3], "weights": [1.0, weight]}
        return tinker.Datum(model_input=types.ModelInput.from_ints([1, 2]), loss_fn_inputs=inputs)

    training.forward_backward([example(1.0)], "cross_entropy").result()
    with pytest.raises(ValidationError, match=r"weights\[1\]: VAL001"):
        training.forward_backward([example(float("nan"))], "cross_entropy")
    with pytest.raises(ValidationError, match="INP001"):
        training.forward_backward([example(1.0)], "ppo")
    with pytest.raises(ValidationError, match="FMT005"):
        training.forward_backward([], "cross_entropy")
    with pytest.raises(provenance.ContractError, match="no loss is called 'cross_entrpy'"):
        training.forward_backward([example(1.0)], "cross_entrpy")
    own = guarded(client, ledger, contract=provenance.Contract.for_loss("cross_entropy").ignore(["VAL001"]))
    own.forward_backward([example(float("nan"))], "cross_entropy").result()
    with pytest.raises(
        provenance.ContractError, match="is 'ppo', and the client is guarded by a contract of"
    ):
        own.forward_backward([example(1.0)], "ppo")
    assert len(server.trained) == 2


def test_reports_of_what_passes_may_hold_warnings(client: Any, sampler: Any) -> None:
    ledger = MemoryLedger()
    datums, _ = rollout(sampler, ledger)
    reports: list[provenance.Report] = []
    late = guard(
        client,
        ledger=ledger,
        on_report=reports.append,
        clock=lambda: NOON + timedelta(hours=23, minutes=30),
    )
    late.forward_backward(datums, LOSS).result()
    assert reports[0].valid
    assert reports[0].counts["SES003"].datums == len(datums)


def test_a_sibling_that_is_named_for_its_prompt_is_not_renewed(client: Any, sampler: Any) -> None:
    ledger = MemoryLedger()
    (datum, _), (name, sibling) = rollout(sampler, ledger, 2)
    sides = [
        [replace(s, sequence_id=sibling) if isinstance(s, types.PromptProvenanceSpan) else s for s in side]
        for side in (datum.model_input_spans, datum.loss_fn_input_spans)
    ]
    guarded(client, ledger).forward_backward([datum.with_provenance(*sides)], LOSS).result()
    assert last_use(ledger, [name]) == {microseconds(LATER)}
    assert last_use(ledger, [sibling]) == {ABSENT}


def test_what_another_session_sampled_is_refused(
    client: Any, sampler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = MemoryLedger()
    elsewhere = Recorder(
        sampler.sample, ledger, session_id="s0", record_stability_info=True, clock=lambda: NOON
    )
    prompt = types.ModelInput.from_ints([101, 102, 103])
    (sequence,) = elsewhere.sample(prompt, 1, types.SamplingParams()).result().sequences
    datum = single_turn([101, 102, 103], sequence.sequence_id, sequence.tokens, sequence.logprobs)
    with pytest.raises(ValidationError, match="SES001"):
        guarded(client, ledger).forward_backward([datum], LOSS)
    assert caplog.messages[-1] == f"batch refused: loss={LOSS} datums=1 bad_datums=1 errors=1"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"session": "s0"}, LedgerError, f"session is 's0', but the training client says '{SESSION}'"),
        ({"ledger": "sequences.db"}, LedgerError, r"'sequences.db' is no ledger: give .*SqlLedger\(PATH\)"),
        ({"client": object()}, SchemaError, r"cannot train, expected a tinker\.TrainingClient"),
    ],
)
def test_what_cannot_be_guarded(
    client: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        guard(options.pop("client", client), **{"ledger": MemoryLedger(), "session": SESSION, **options})


def test_a_future_and_a_guarded_client_are_refused(service: tinker.ServiceClient, client: Any) -> None:
    future = service.create_lora_training_client(base_model="m")
    with pytest.raises(SchemaError, match=r"still a future: call \.result\(\) on it"):
        guard(future, ledger=MemoryLedger())
    future.result()
    with pytest.raises(SchemaError, match="guarded already"):
        guarded(guarded(client, MemoryLedger()), MemoryLedger())
