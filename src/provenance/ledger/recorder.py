"""The recorder: writes down what a sampler returns before the caller sees it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from provenance.errors import LedgerError, SchemaError
from provenance.ledger._protocol import Ledger
from provenance.models import SampledSequence

#: Sampling parameters that a record keeps.
_PARAMETERS: Final = ("temperature", "top_p", "top_k", "seed")
_NO_TEXT: Final = -1


class Recorder:
    """Samples like what it wraps, and records each sequence that comes back.

    A response does not say in which session, when, from which prompt and with which parameters it was
    sampled, nor whether stability info was recorded; asked later, nobody knows. So the recorder notes it with
    the request, and hands a response out only when the ledger has it.

        recorder = Recorder(sampling_client, ledger, policy_version=step)
        response = recorder.sample(prompt, 8, sampling_params).result()    # or: await recorder.sample(...)

    ``sampled_at`` is the time just before the request, so that a record never claims more of its day than is
    left. Requests may overlap, from threads and tasks; a sequence whose future nobody asks is not recorded.
    """

    def __init__(
        self,
        sampler: Any,
        ledger: Ledger,
        *,
        session_id: str | None = None,
        record_stability_info: bool | None = None,
        model: str | None = None,
        policy_version: str | int | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Wrap a sampler.

        Args:
            sampler: an object with a method ``sample``, such as the SDK's SamplingClient, or a function;
                called with prompt, number of samples and sampling parameters. It returns a response, a future
                of one (``result``), or an awaitable. A response holds ``sequences``, or is a list of them;
                each has ``sequence_id``, ``tokens`` and ``logprobs``, and may have ``stop_reason``, as
                attributes or keys.
            ledger: where records go.
            session_id: the session that samples; the SDK's client knows its own.
            record_stability_info: whether the sampling client asked for stability info; the SDK's client
                (0.27 and later) knows it, and what is given here must agree.
            model: the base model; the SDK's client knows it.
            policy_version: which weights sample.
            clock: gives the time, aware.

        Raises:
            LedgerError: the session or the stability info is neither given nor known to the sampler, or
                contradicts what the sampler knows.
        """
        self._sample = _method_of(sampler)
        self._ledger = ledger
        self._clock = clock
        holder = getattr(sampler, "holder", None)
        stability = getattr(sampler, "_record_stability_info", None)
        base_model = getattr(sampler, "get_base_model", None)
        self._constant = {
            "session_id": _agreed("session_id", session_id, holder and holder.get_session_id()),
            "record_stability_info": _agreed("record_stability_info", record_stability_info, stability),
            "model": base_model() if model is None and base_model is not None else model,
            "policy_version": policy_version,
        }

    def sample(self, prompt: Any, num_samples: int = 1, sampling_params: Any = None, **options: Any) -> Any:
        """Sample, and record what comes back.

        Args:
            prompt: a ModelInput, ours or the SDK's, or token ids.
            num_samples: how many samples to draw.
            sampling_params: an object or a mapping with ``temperature``, ``top_p``, ``top_k`` and ``seed``.
            options: passed on to the sampler as they are.

        Returns:
            What the sampler returns, a list in the place of an iterator. Where that is a future, a
            `Recording`, whose result is recorded before it is handed out; where it is an awaitable, a
            coroutine that does the same.

        Raises:
            SchemaError: prompt, parameters or time cannot be recorded, which is found before anything is
                sampled; or a sequence came back without logprobs, or malformed.
            LedgerError: the ledger has one of the sequences with other content, or cannot be written.
        """
        # A model holds copies: the caller may go on with the prompt in place while the request is under way.
        request = SampledSequence(
            sequence_id="not known yet",
            prompt_tokens=_prompt_tokens(prompt),
            tokens=[],
            logprobs=[],
            sampled_at=self._clock(),
            **{name: _get(sampling_params, name) for name in _PARAMETERS},
            **self._constant,
        )
        answer = self._sample(prompt, num_samples, sampling_params, **options)
        if not asyncio.isfuture(answer) and hasattr(answer, "result"):
            return Recording(answer, lambda response: self._keep(response, request))
        if inspect.isawaitable(answer):
            return self._awaited(answer, request)
        return self._keep(answer, request)

    async def sample_async(self, *args: Any, **options: Any) -> Any:
        """As ``sample``, awaited at once."""
        return await self.sample(*args, **options)

    async def _awaited(self, answer: Any, request: SampledSequence) -> Any:
        response = await answer
        return await asyncio.to_thread(self._keep, response, request)

    def _keep(self, response: Any, request: SampledSequence) -> Any:
        if isinstance(response, Iterator):
            response = list(response)
        self._ledger.record([_record_of(sequence, request) for sequence in _sequences_of(response)])
        return response


class Recording:
    """A response on its way; asked for it, it is recorded first. Asking again records nothing new."""

    def __init__(self, future: Any, keep: Callable[[Any], Any]) -> None:
        self._future = future
        self._keep = keep

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the response, at most ``timeout`` seconds (TimeoutError), and record it."""
        return self._keep(self._future.result() if timeout is None else self._future.result(timeout))

    async def result_async(self, timeout: float | None = None) -> Any:
        """As ``result``, without blocking the event loop."""
        if not inspect.isawaitable(self._future):
            return await asyncio.to_thread(self.result, timeout)
        async with asyncio.timeout(timeout):
            response = await self._future
        return await asyncio.to_thread(self._keep, response)

    def __await__(self) -> Generator[Any, None, Any]:
        return self.result_async().__await__()


def _method_of(sampler: Any) -> Callable[..., Any]:
    if hasattr(sampler, "result"):
        raise LedgerError("the sampling client is still a future: call .result() on it, or await it, first")
    method = getattr(sampler, "sample", sampler)
    if not callable(method):
        raise LedgerError(
            f"{sampler!r} cannot sample: expected a function or an object with a method `sample`"
        )
    found: Callable[..., Any] = method
    return found


def _agreed(name: str, given: Any, known: Any) -> Any:
    if given is None and known is None:
        raise LedgerError(f"no {name}, and the sampler does not know it: Recorder(..., {name}=...)")
    if given is not None and known is not None and given != known:
        raise LedgerError(
            f"{name} is {given!r}, but the sampling client says {known!r}: records would be wrong about it"
        )
    return known if given is None else given


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _prompt_tokens(prompt: Any) -> Any:
    """Ids of the prompt, one entry a position; -1 for what is no text."""
    chunks = getattr(prompt, "chunks", None)
    if chunks is None:
        return prompt
    ids: list[int] = []
    for i, chunk in enumerate(chunks):
        tokens = getattr(chunk, "tokens", None)
        if tokens is not None:
            ids.extend(tokens)
            continue
        try:
            ids.extend([_NO_TEXT] * chunk.length)
        except (SchemaError, ValueError) as error:
            raise SchemaError(
                f"prompt chunks[{i}]: cannot be recorded, its length is unknown: {error}"
            ) from None
    return ids


def _sequences_of(response: Any) -> Iterable[Any]:
    sequences = _get(response, "sequences")
    if sequences is not None:
        response = sequences
    if not isinstance(response, Iterable) or isinstance(response, str | bytes | Mapping):
        raise SchemaError(
            f"a sampler returned a {type(response).__name__}, expected a response with `sequences`, or a list"
        )
    return response


def _record_of(sequence: Any, request: SampledSequence) -> SampledSequence:
    sequence_id, logprobs = _get(sequence, "sequence_id"), _get(sequence, "logprobs")
    if logprobs is None:
        raise SchemaError(
            f"sequence {sequence_id!r} came back without logprobs, which no training request can do without: "
            "ask the sampler for them"
        )
    return request.model_copy(
        update={
            "sequence_id": sequence_id,
            "tokens": _get(sequence, "tokens"),
            "logprobs": logprobs,
            "stop_reason": _get(sequence, "stop_reason"),
        }
    )
