"""The API as a program sees it, /health, and the log: a served page with tiny models."""

import io
import json
import logging
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

import playground as pg
from playground.lm import TransformersLM
from playground.models import ModelError
from playground.serving.host import Host, Meter
from playground.serving.limits import Limits
from playground.ui import start
from playground.ui.library import Library
from tests.tiny import tiny_llama, tiny_tokenizer

NAMES = {"next_tokens", "shape", "generate", "beam", "contrast", "speculate"}
ROOT = Path(__file__).resolve().parents[2]
FILE = "gradio_api/file="
LIMITS = Limits(prompt_tokens=60, new_tokens=12, beams=4, gamma=5)


def load(name, progress):
    if name != "default":
        raise ModelError(f"no model called {name!r}")
    return TransformersLM(tiny_llama(), tiny_tokenizer(), name="tiny", fingerprint="tiny")


@pytest.fixture(scope="module")
def served():
    host = Host(load, LIMITS)
    library = Library(host.load)
    demo = start.build(library, host)
    port = start.free_port("127.0.0.1", 7900)
    options = start.serve_options("127.0.0.1", port, [start.health_route(library, host)])
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, **options)
    before = json.load(urllib.request.urlopen(url + "health"))
    library.get("default")
    yield SimpleNamespace(url=url, before=before, demo=demo, client=Client(url, verbose=False))
    demo.close(verbose=False)


@pytest.fixture(scope="module")
def call(served):
    def call(name, *args, **options):
        return served.client.predict(*args, **options, api_name=f"/{name}")

    return call


@pytest.fixture(scope="module")
def lm():
    return load("default", None)


def test_only_the_named_endpoints_are_there_with_their_types(served):
    found = served.client.view_api(return_format="dict")
    assert {name.strip("/") for name in found["named_endpoints"]} == NAMES
    assert not found["unnamed_endpoints"]
    takes = found["named_endpoints"]["/generate"]["parameters"]
    kinds = {p["parameter_name"]: p["python_type"]["type"] for p in takes}
    assert kinds["text"] == "str" and kinds["max_new_tokens"] == "int"
    assert kinds["temperature"] == "float" and kinds["seed"] == "int"
    assert takes[0]["parameter_has_default"] is False
    text = json.dumps(found["named_endpoints"])
    assert "How many tokens to add at most" in json.dumps(served.demo.get_api_info()) or text


def test_handlers_of_the_page_are_no_endpoints(served):
    public = [fn for fn in served.demo.fns.values() if fn.api_visibility != "private"]
    assert {fn.api_name for fn in public} == NAMES
    with pytest.raises((ValueError, AppError, KeyError)):
        served.client.predict(api_name="/handle")


def test_next_tokens_are_the_models_own(call, lm):
    found = call("next_tokens", "hello", top=5)
    logprobs = pg.shape(lm.logits(lm.encode("hello"))[-1], pg.SamplingParams())[0].logprobs
    order = np.argsort(-logprobs, kind="stable")[:5]
    assert [t["id"] for t in found["tokens"]] == order.tolist()
    np.testing.assert_allclose([t["logprob"] for t in found["tokens"]], logprobs[order], atol=1e-4)
    assert found["tokens"][0]["text"] == lm.decode([int(order[0])])
    everything = call("next_tokens", "hello", top=96)["tokens"]
    assert sum(t["p"] for t in everything) == pytest.approx(1)


def test_shape_tells_what_each_filter_removed(call, lm):
    found = call("shape", "hello", temperature=0.7, top_k=20, top_p=0.9, top=96)
    params = pg.SamplingParams(0.7, 20, 0.9)
    stages = pg.shape(lm.logits(lm.encode("hello"))[-1], params)
    assert found["kept"] == len(found["tokens"]) == int((stages[-1].logprobs > -np.inf).sum())
    assert sum(found["removed"].values()) == 96 - found["kept"]
    assert found["removed"]["top_k"] == 76
    assert sum(t["p"] for t in found["tokens"]) == pytest.approx(1)


def test_generate_is_the_library_s_generate(call, lm):
    found = call("generate", "hello", max_new_tokens=8, temperature=0.9, top_p=0.8, seed=3)
    want = pg.generate(lm, lm.encode("hello"), pg.SamplingParams(0.9, 0, 0.8, seed=3), 8)
    assert found["ids"] == list(want.new_ids) and found["text"] == lm.decode(want.new_ids)
    assert found["stop"] == want.stop
    assert call("generate", "hello", 8, 0.9, 0, 0.8, 0.0, 3)["ids"] == found["ids"]


def test_beam_contrast_and_speculate(call, lm):
    ids = lm.encode("hello")
    found = call("beam", "hello", num_beams=3, max_new_tokens=5)
    want = pg.beam_search(lm, ids, pg.BeamParams(3, 5)).hypotheses
    assert [h["ids"] for h in found["hypotheses"]] == [list(h.ids) for h in want]
    found = call("contrast", "hello", max_new_tokens=5)
    amateur = pg.amateur_of(lm, "short-context")
    want = pg.contrastive_decode(
        lm, amateur, ids, pg.ContrastiveParams(), pg.SamplingParams(0.0), 5
    )
    assert found["ids"] == list(want.new_ids)
    found = call("speculate", "abcabcab", gamma=3, max_new_tokens=6, temperature=0.0)
    plain = pg.generate(lm, lm.encode("abcabcab"), pg.SamplingParams(0.0), 6)
    assert found["ids"] == list(plain.new_ids)
    assert len(found["sources"]) == len(found["ids"])


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("generate", {"max_new_tokens": 13}, "at most 12 new tokens here, not 13"),
        ("beam", {"num_beams": 5}, "At most 4 beams are searched at once here, not 5"),
        ("speculate", {"gamma": 6}, "At most 5 tokens are drafted at once here, not 6"),
        ("next_tokens", {"text": "a" * 61}, "has 61 tokens, and this server takes at most 60"),
        ("next_tokens", {"text": 7}, "text must be text"),
        ("next_tokens", {"top": 0}, "top must be a whole number in [1, 1000], got 0"),
        ("shape", {"temperature": "hot"}, "temperature must be in"),
        ("generate", {"max_new_tokens": 2.5}, "max_new_tokens must be a whole number"),
        ("generate", {"model": "someone/else"}, "Only the models of the list"),
        ("contrast", {"amateur": "distilled", "max_new_tokens": 2}, "kind must not be distilled"),
        ("speculate", {"draft": "magic", "max_new_tokens": 2}, "draft must be one of"),
    ],
)
def test_refusals_are_one_line_of_words(call, name, options, words):
    with pytest.raises(AppError) as refused:
        call(name, **{"text": "hello", **options})
    text = str(refused.value)
    assert words in text and "\n" not in text and "Traceback" not in text


class Grave(logging.Handler):
    """Keeps what the web server logs as an error: a request that fell through."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.found = []

    def emit(self, record):
        self.found.append(record.getMessage())


@pytest.fixture
def grave():
    handler, logger = Grave(), logging.getLogger("uvicorn.error")
    logger.addHandler(handler)
    yield handler.found
    logger.removeHandler(handler)


def post(served, path, body):
    request = urllib.request.Request(
        served.url + "gradio_api/" + path,
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


BEYOND = {"data": [], "fn_index": 99999, "session_hash": "someone"}
PART = {"component_id": 99999, "session_hash": "someone", "fn_name": "x", "data": []}


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("call/nonsense", {"data": []}, 404, "there is no endpoint 'nonsense'"),
        ("call/nonsense/", {"data": []}, 404, "there is no endpoint 'nonsense'"),
        ("call/v2/nonsense", {}, 404, "there is no endpoint 'nonsense'"),
        ("run/nonsense", {"data": []}, 404, "there is no endpoint 'nonsense'"),
        ("api/nonsense", {"data": []}, 404, "there is no endpoint 'nonsense'"),
        ("call/" + "n" * 5000, {"data": []}, 404, f"there is no endpoint '{'n' * 80}'"),
        ("run/predict", BEYOND, 404, "there is no endpoint 99999"),
        ("queue/join", BEYOND, 404, "there is no endpoint 99999"),
        ("queue/join", {**BEYOND, "fn_index": -1}, 404, "there is no endpoint -1"),
        ("component_server", PART, 404, "there is no component 99999"),
        ("call/v2/next_tokens", {}, 400, "No value provided for required argument: text"),
        ("call/v2/next_tokens", {"text": "a", "x": 1}, 400, "Parameter `x` is not a valid"),
    ],
)
def test_what_is_not_there_is_said_in_a_line_and_logs_nothing(
    served, grave, path, body, status, words
):
    got, said = post(served, path, body)
    assert got == status and list(said) == ["error"]
    assert said["error"].startswith(words) and "\n" not in said["error"]
    assert not grave


def test_an_answer_nobody_asked_for_ends_without_a_traceback(served, grave):
    url = served.url + "gradio_api/call/next_tokens/nothing"
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert b"404" in answer.read()
    assert not grave


@pytest.mark.parametrize("error", [KeyError("seed"), TypeError("seed")])
def test_errors_of_other_places_go_on_as_they_were(error):
    async def broken(_):
        raise error

    options = start.serve_options("", 0, [Route("/health", broken)])["app_kwargs"]
    client = TestClient(Starlette(**options))
    with pytest.raises(type(error)) as caught:
        client.get("/health")
    assert caught.value is error


def test_programs_can_call_by_plain_http(served):
    status, said = post(served, "call/next_tokens", {"data": ["hello", 5, "default"]})
    assert status == 200
    url = served.url + f"gradio_api/call/next_tokens/{said['event_id']}"
    with urllib.request.urlopen(url, timeout=20) as answer:
        assert b"event: complete" in answer.read()
    assert post(served, "call/v2/next_tokens", {"text": "hello"})[0] == 200


def test_health_says_loading_and_then_ok(served):
    assert served.before["status"] == "loading" and served.before["model"] is None
    with urllib.request.urlopen(served.url + "health") as answer:
        found = json.load(answer)
        assert answer.status == 200
    assert found["status"] == "ok" and found["model"] == "tiny" and found["waiting"] == 0


def test_a_model_that_cannot_be_had_is_unhealthy():
    def broken(name, progress):
        raise ModelError("no disk")

    host = Host(broken, LIMITS)
    library = Library(host.load)
    library.preload().join()
    found, status = host.health(library)
    assert status == 503 and found["status"] == "failed"


def test_uploads_are_bounded_and_files_stay_private(served):
    def status(path, data=None, **headers):
        request = urllib.request.Request(served.url + path, data, headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            body = error.read().decode()
            assert "Traceback" not in body and str(ROOT) not in body.replace(path[len(FILE) :], "")
            return error.code

    body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
    limit = start.serve_options("", 0)["max_file_size"]
    big = body + b"a" * (limit + 1_000_000) + b"\r\n--x--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    assert status("gradio_api/upload", big, **kind) == 413
    for path in ("/etc/passwd", f"{start.__file__}", "../../etc/passwd"):
        assert status(f"{FILE}{path}") in (403, 404)
    assert status("monitoring") in (403, 404)


def test_the_log_has_times_and_counts_every_ten_seconds_of_work():
    lines, now = [], [0.0]
    meter = Meter(lines.append, clock=lambda: now[0])
    for i in range(30):
        now[0] = i
        meter.add({"kind": "steps", "rows": 4, "seconds": 0.1, "waited": 0.01, "queue": i % 3})
    assert len(lines) == 2
    line = json.loads(lines[0])
    assert line["event"] == "forwards" and line["forwards"] == 11 and line["rows"] == 44
    assert line["step_p95"] == 0.1 and line["queue_max"] == 2


def test_the_log_is_lines_of_json():
    logger = logging.getLogger("playground")
    before = logger.handlers, logger.propagate, logger.level
    stream = io.StringIO()
    try:
        start.log_as_json(stream)
        logging.getLogger("playground.serving").info(json.dumps({"event": "forwards", "rows": 3}))
        try:
            raise RuntimeError("boom")
        except RuntimeError:
            logger.exception("handler failed")
    finally:
        logger.handlers, logger.propagate = before[:2]
        logger.setLevel(before[2])
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["rows"] == 3 and first["level"] == "info" and first["time"]
    assert second["event"] == "handler failed" and "boom" in second["error"]


def test_flags_go_before_the_environment(monkeypatch):
    monkeypatch.setenv("PLAYGROUND_BEAMS", "3")
    monkeypatch.setenv("PLAYGROUND_GAMMA", "3")
    monkeypatch.setenv("SPACE_ID", "a/b")
    options, limits = start.read_options(["--beams", "7", "--port", "9000"])
    assert (limits.beams, limits.gamma, limits.any_model) == (7, 3, 0)
    assert (options.host, options.port) == ("0.0.0.0", 9000)
    monkeypatch.setenv("PLAYGROUND_GAMMA", "lots")
    with pytest.raises(SystemExit):
        start.read_options([])


def test_the_page_shows_before_its_model_is_there():
    began = time.monotonic()

    def slow(name, progress):
        progress(0.5, "half of it")
        time.sleep(1.5)
        return load(name, progress)

    host = Host(slow, LIMITS)
    library = Library(host.load)
    thread = library.preload()
    demo = start.build(library, host)
    assert library.loaded("default") is None or time.monotonic() - began > 1.5
    assert demo.get_config_file()["components"]
    thread.join()
