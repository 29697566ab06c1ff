"""Listening, and the processes that answer.

One worker answers in this process. Several are started anew, each with its own engine over the
same memory-mapped pool and the same event log, and share one socket. On a cluster each has shards
of its own, over the same files and pages. On SIGTERM a worker takes no new connection, finishes
what it was asked and snapshots its model.
"""

import json
import os
import pkgutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from nextquery.arms import ArmPool
from nextquery.errors import InvalidInput
from nextquery.service.answer.engine import Engine
from nextquery.service.answer.shards import leave
from nextquery.service.http import json_log
from nextquery.service.http.app import create_app
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.model.prepare import prepare
from nextquery.service.settings.settings import Settings, is_loopback

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # what workers share; prometheus-client reads the name too
_READY = "ready-"  # with its process number: a file there of each worker that can answer
_DRAIN_S = 10  # how long a stop waits for requests that were begun
_HUNG_S = 30  # a worker that gives no sign for so long is replaced; a busy machine may need seconds
Tell = Callable[[str], None]
OpenPool = Callable[[Settings], ArmPool]


def open_here(settings: Settings) -> ArmPool:
    """The pool in this process; this package knows no cluster."""
    if settings.cluster is not None:
        raise InvalidInput(
            f"cluster={settings.cluster}: give open_pool, a function that opens the pool there, as "
            "the command nextquery serve does."
        )
    return ArmPool.open(str(settings.pool))


def serve(
    settings: Settings, *, tell: Tell, progress: Any = None, open_pool: OpenPool = open_here
) -> None:
    """Answer until asked to stop.

    Parameters
    ----------
    settings : all that can be set; `pool` must be.
    tell : called with each line for people.
    progress : called with the steps done and all steps of the warm start, at a first start.
    open_pool : opens the pool that the settings name, once in each process that uses it. Several
        workers import it by its name, so it must be at the top of a module.
    """
    if settings.pool is None:
        raise InvalidInput("no pool to serve. Name a folder that nextquery ingest made.")
    pool, store = open_pool(settings), Store.open(settings.store)
    ring = KeyRing(store)
    keys = keys_needed(settings, ring)
    watched = ring if settings.keys == "auto" else None
    listening = _listen(settings)
    prepare(pool, store, settings.engine_options(), progress=progress)
    listening.listen(2048)  # from here on who connects is answered, if not at once
    port = listening.getsockname()[1]
    said = greeting(settings, port, arms=len(pool), keyless=keys is None)
    if settings.workers == 1:
        engine = Engine.start(pool, store, settings.engine_options())
        app = create_app(engine, settings, keys=keys, watched=watched)
        _run_here(app, settings, listening, tell, said)
        engine.close()
    else:
        store.close()
        leave(pool)
        _run_workers(settings, listening, tell, said, open_pool, keyless=keys is None)


def _run_here(
    app: FastAPI, settings: Settings, listening: socket.socket, tell: Tell, said: list[str]
) -> None:
    server = uvicorn.Server(_config(app))
    _when_asked_to_stop(lambda: setattr(server, "should_exit", True))
    json_log.start(level=settings.log_level, messages=settings.log_queries)
    for line in said:
        tell(line)
    server.run(sockets=[listening])


def _run_workers(
    settings: Settings,
    listening: socket.socket,
    tell: Tell,
    said: list[str],
    open_pool: OpenPool,
    *,
    keyless: bool,
) -> None:
    with tempfile.TemporaryDirectory(prefix="nextquery-workers-") as folder:
        chosen = settings.model_dump() | {
            "user_hash_secret": settings.user_hash_secret.get_secret_value(),
            "keys": settings.keys if keyless else "on",
        }
        opener = f"{open_pool.__module__}:{open_pool.__qualname__}"
        shared = {"settings": chosen, "parent": os.getpid(), "open_pool": opener}
        (Path(folder) / "worker.json").write_text(json.dumps(shared))
        os.environ[_FOLDER] = folder
        config = _config("nextquery.service.server:worker", workers=settings.workers, factory=True)
        several = Multiprocess(config, sockets=[listening])
        _when_asked_to_stop(several.should_exit.set)
        json_log.start(level=settings.log_level, messages=settings.log_queries)

        def greet() -> None:
            while not any(Path(folder).glob(f"{_READY}*")):
                if several.should_exit.wait(0.05):
                    return
            for line in said:
                tell(line)

        threading.Thread(target=greet, daemon=True).start()
        several.run()


def _when_asked_to_stop(stop: Callable[[], None]) -> None:
    """Heed SIGTERM and ctrl-c from now on, and end with code 0 once all is done."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


def worker() -> FastAPI:
    """The application of one of several workers; made in the worker itself."""
    shared = json.loads((Path(os.environ[_FOLDER]) / "worker.json").read_text())
    settings = Settings(**shared["settings"])
    json_log.start(level=settings.log_level, messages=settings.log_queries)
    threading.Thread(target=_end_with, args=(shared["parent"],), daemon=True).start()
    pool, store = pkgutil.resolve_name(shared["open_pool"])(settings), Store.open(settings.store)
    engine = Engine.start(pool, store, settings.engine_options())
    ring = KeyRing(store)
    keys = ring if settings.keys == "on" else None
    app = create_app(engine, settings, keys=keys, watched=ring if settings.keys == "auto" else None)
    (Path(os.environ[_FOLDER]) / f"{_READY}{os.getpid()}").touch()
    return app


def keys_needed(settings: Settings, ring: KeyRing) -> KeyRing | None:
    """The keys that requests must hold; None where everybody on this machine may ask."""
    here = is_loopback(settings.host)
    if settings.keys == "off" and not here:
        raise InvalidInput(
            f"host={settings.host} with keys=off would let everybody on the network in. Keys may "
            "be off on 127.0.0.1, ::1 and localhost only: leave --keys out, or listen there."
        )
    if settings.keys == "off" or (settings.keys == "auto" and here and not ring.has_any()):
        return None
    if not ring.has_any():
        raise InvalidInput(
            f"host={settings.host} needs API keys and the store holds none in force. Make one: "
            "nextquery keys create NAME --scope write --store URL"
        )
    return ring


def greeting(settings: Settings, port: int, *, arms: int, keyless: bool) -> list[str]:
    """What a person reads at the start: the address, who may ask, and how to try it."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{port}"
    key = "" if keyless else " -H 'Authorization: Bearer KEY'"
    curl = f"curl {url}/v1/recommend{key} -H 'Content-Type: application/json'"
    asked = '\'{"session_id": "s1", "query": "graph neural networks"}\''
    taken = '\'{"decision_id": "FROM THE ANSWER", "accepted": ARM_ID}\''
    who = (
        "API keys are OFF: everybody on this machine may ask (requests must be addressed to it)."
        + (" The first key made turns them on." if settings.keys == "auto" else "")
        if keyless
        else "API keys are on: nextquery keys create makes one."
    )
    return [
        f"serving {arms:,} arms at {url} (ctrl-c stops)",
        f"page: {url}/",
        who,
        f"try:  {curl} -d {asked}",
        f"then: {curl.replace('recommend', 'feedback')} -d {taken}",
    ]


def _listen(settings: Settings) -> socket.socket:
    """The socket, bound before anything long begins."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends without delay (TCP_NODELAY) only where the protocol is named
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise InvalidInput(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}. "
            "Name another --port or --host."
        ) from None
    listening.set_inheritable(True)
    return listening


def _config(app: Any, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # ours has request ids and no queries
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=_DRAIN_S,
        timeout_worker_healthcheck=_HUNG_S,
        **more,
    )


def _end_with(parent: int) -> None:
    """Stop when the process that started the workers is gone, however it went."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
