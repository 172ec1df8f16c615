"""A stand-in for Tinker's server on loopback: enough of its protocol for the official client to train."""

from __future__ import annotations

import gc
import json
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from unittest import mock

import numpy as np
import tinker
from tinker.proto import tinker_public_pb2 as pb

SESSION = "session-1"
MODEL = f"{SESSION}:train:0"


class Server(ThreadingHTTPServer):
    """Answers each sampling request with random tokens, and remembers what it was asked and answered."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.sampled: dict[str, tuple[list[int], list[float]]] = {}
        """Tokens and logprobs by sequence id."""
        self.trained: list[bytes] = []
        """Bodies of the training requests."""
        self.refusal: str | None = None
        """Why training requests fail; None: they do not."""
        self.open = threading.Event()
        """Training requests are done while it is set, and wait while it is not."""
        self.open.set()
        self._answers: dict[str, tuple[bytes, str]] = {}
        self._number = count(1)
        self._random = np.random.default_rng(7)
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str, raw: bytes) -> tuple[bytes, str]:
        if path == "retrieve_future":
            request = json.loads(raw)["request_id"]
            if request.startswith("train-"):
                self.open.wait(30)
            with self._lock:
                return self._answers[request]
        with self._lock:
            if path == "forward_backward":
                answer = self._forward_backward(raw)
            else:
                body = json.loads(raw or b"{}")
                self.requests.append((path, body))
                answer = self._json(path, body)
            return json.dumps(answer).encode(), "application/json"

    def _json(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "create_session":
            return {"type": "create_session", "session_id": SESSION}
        if path == "create_sampling_session":
            return {"type": "create_sampling_session", "sampling_session_id": f"{SESSION}:sample:0"}
        if path == "get_sampler":
            return {"sampler_id": f"{SESSION}:sample:0", "base_model": "a-base-model"}
        if path == "asample":
            return self._asample(body)
        if path == "create_model":
            return self._later("model", {"type": "create_model", "model_id": MODEL})
        if path == "get_info":
            return {"type": "get_info", "model_id": MODEL, "model_data": {"model_name": "a-base-model"}}
        if path == "optim_step":
            return self._later("optim", {"metrics": {"step": 1.0}})
        return {}

    def _later(self, kind: str, answer: dict[str, Any]) -> dict[str, Any]:
        request = f"{kind}-{next(self._number)}"
        self._answers[request] = json.dumps(answer).encode(), "application/json"
        return {"request_id": request}

    def _forward_backward(self, raw: bytes) -> dict[str, Any]:
        self.trained.append(raw)
        if self.refusal is not None:
            return self._later("train", {"error": self.refusal, "category": "user"})
        message = pb.ForwardBackwardRequest.FromString(raw)
        output = pb.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord")
        output.metrics["loss:sum"] = float(len(message.data))
        request = f"train-{next(self._number)}"
        self._answers[request] = output.SerializeToString(), "application/x-protobuf"
        return {"request_id": request}

    def _asample(self, body: dict[str, Any]) -> dict[str, Any]:
        request, response = f"request-{next(self._number)}", pb.SampleResponse()
        ids = [f"{request}:{i}" for i in range(body["num_samples"])]
        for sequence_id in ids:
            length = int(self._random.integers(1, 6))
            tokens = self._random.integers(0, 1000, length).astype(np.int32)
            logprobs = np.log(self._random.uniform(0.01, 1, length)).astype(np.float32)
            self.sampled[sequence_id] = tokens.tolist(), logprobs.tolist()
            sequence = response.sequences.add()
            sequence.stop_reason = 1
            sequence.tokens, sequence.logprobs = tokens.tobytes(), logprobs.tobytes()
        self._answers[request] = response.SerializeToString(), "application/x-protobuf"
        return {"request_id": request, "sample_sequence_ids": ids}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = self.path.split("/")
        # Before 0.38 the id is in the path: samplers/ID.
        body, kind = self.server.answer("get_sampler" if "samplers" in parts else parts[-1], raw)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@contextmanager
def running() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.open.set()
        server.shutdown()
        server.server_close()
        thread.join()


def service_of(server: Server) -> Iterator[tinker.ServiceClient]:
    """A client of the server, for a fixture to yield from: whoever else keeps it lets it warn elsewhere."""
    with (
        mock.patch.dict(os.environ, TINKER_TELEMETRY="0"),
        tinker.ServiceClient(base_url=server.url, api_key="tml-nobody") as service,
    ):
        yield service
    with warnings.catch_warnings():
        # The SDK leaves its connection to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        del service
        gc.collect()
