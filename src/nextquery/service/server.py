"""The server: the socket, the worker processes, and what a worker does at its start.

A single worker runs in this process. Several workers are processes that share one socket; each
has its own engine over the same memory-mapped pool and event log. On a cluster each has its own
shards over the same files. On SIGTERM a worker accepts no new connections, answers the requests
it has and saves a snapshot.

At the start, a worker makes one forecast, so that the first visitor does not wait for
compilation. Modules and compiled code are excluded from garbage collection: scanning them takes a
tenth of a second, again and again, and stops every thread. The start prints the address, who may
call, and how to try the service.
"""

import atexit
import gc
import json
import os
import pkgutil
import shlex
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import SecretStr
from uvicorn.supervisors import Multiprocess

from nextquery.arms import ArmPool
from nextquery.errors import InvalidInput, NextqueryError, StorageError
from nextquery.segments import segment_of, text_of
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.explore import explored
from nextquery.service.engine.requests import leave
from nextquery.service.engine.slates import example_queries
from nextquery.service.http import responses
from nextquery.service.http.access import CREATE_A_KEY, CREATE_AN_ADMIN_KEY, NO_OWNER, new_token
from nextquery.service.http.app import create_app
from nextquery.service.http.documentation import is_built
from nextquery.service.http.keys import KeyRing
from nextquery.service.http.limits import ConnectionLimits, LimitedConfig, most_connections
from nextquery.service.log.database import without_password
from nextquery.service.log.store import Store
from nextquery.service.model.prepare import Ask, never, prepare
from nextquery.service.settings import Settings, is_loopback


@contextmanager
def loading() -> Iterator[None]:
    """Collect nothing while modules are imported, and leave out later what was there at the end."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _leave_alone()
        if was_on:
            gc.enable()


def keep_what_is_loaded() -> None:
    """Exclude what exists now from garbage collection."""
    gc.collect()
    _leave_alone()


def _leave_alone() -> None:
    gc.freeze()
    atexit.unregister(gc.unfreeze)
    atexit.register(gc.unfreeze)  # some libraries complain about what is left at the end


LAST = "then: "  #: how the last line begins


def greeting(
    settings: Settings, port: int, *, arms: int, token: str | None, query: str = "A QUERY"
) -> list[str]:
    """Return the lines to print.

    Parameters
    ----------
    settings : where the service listens.
    port : the port that it got.
    arms : number of arms.
    token : what opens admin paths without API keys; None if requests need keys.
    query : what to ask in the example.
    """
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{port}"
    key = " -H 'Authorization: Bearer KEY'" if token is None else ""
    curl = f"curl {url}/v1/recommend{key} -H 'Content-Type: application/json'"
    asked = shlex.quote(json.dumps({"session_id": "s1", "query": query}, ensure_ascii=False))
    taken = '\'{"decision_id": "FROM THE ANSWER", "accepted": ARM_ID}\''
    return [
        f"serving {arms:,} arms at {url} (ctrl-c stops)",
        f"page: {url}/" if token is None else f"page: {url}/#token={token}",
        f"API:  {url}/api",
        "docs: " + (f"{url}/docs/" if is_built() else "run make docs, then start again"),
        *([f"examples: rows of {settings.explore}, on the page"] if settings.explore else []),
        *_who_may_call(settings, token),
        f"try:  {curl} -d {asked}",
        f"{LAST}{curl.replace('recommend', 'feedback')} -d {taken}",
    ]


def _who_may_call(settings: Settings, token: str | None) -> list[str]:
    store = without_password(settings.store)
    key, admin_key = (text.replace("URL", store) for text in (CREATE_A_KEY, CREATE_AN_ADMIN_KEY))
    if token is None:
        return [f"API keys are on. For the page's Operate view: {admin_key}"]
    off = "API keys are OFF: everyone on this machine may ask for recommendations. "
    on = "Creating the first key turns them on." if settings.keys == "auto" else ""
    return [
        (off + on).rstrip(),
        "Administration needs the token in the link above; it is new at every start.",
        f"Before you put a proxy in front, create keys: {key}",
        f"and, since keys end the token: {admin_key}",
    ]


def warm_up(engine: Engine) -> None:
    """Make a forecast, which records nothing: kernels are compiled or loaded, memory is read.

    On a machine that has never served this takes seconds; later it takes as long as one answer.
    What fails here, such as a shard that is not back yet, is reported when somebody asks.
    """
    texts = engine.catalogue.pool.texts
    if texts:
        with suppress(NextqueryError):
            query, segment = text_of(texts[0]), segment_of(texts[0])
            engine.forecast(session_id="warm-up", query=query, m=1, segment=segment)


_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # shared by the workers; prometheus-client reads the name too
_READY = "ready-"  # plus the process id: a file in that folder for each worker that can answer
_FAILED = "failed"  # a file there with the error of a worker that could not start
_DRAIN_S = 7  # how long a stop waits for open requests; then come the `CLOSE_S` of the engine
_HUNG_S = 30  # a worker that does not respond for this long is replaced
PrintLine = Callable[[str], None]
OpenPool = Callable[[Settings], ArmPool]


def open_here(settings: Settings) -> ArmPool:
    """Open the pool in this process; this package does not know clusters."""
    if settings.cluster is not None:
        raise InvalidInput(
            f"cluster={settings.cluster} needs open_pool, a function that opens the pool there, as "
            "the command nextquery serve does."
        )
    return ArmPool.open(str(settings.pool))


def serve(
    settings: Settings,
    *,
    print_line: PrintLine,
    progress: Any = None,
    open_pool: OpenPool = open_here,
    forget: Ask = never,
) -> None:
    """Answer requests until asked to stop.

    Parameters
    ----------
    settings : all settings; `pool` is required.
    print_line : called with each line to print.
    progress : called with the steps done and the total during the warm start of a new store.
    open_pool : opens the pool of the settings, once in each process. Workers import it by name, so
        it must be defined at the top of a module.
    forget : asked before a change of settings loses what was learnt live (see `prepare`).
    """
    if settings.pool is None:
        raise InvalidInput(
            "no pool to serve. Make one of your log (nextquery ingest LOG --out POOL), then run "
            "nextquery serve POOL. To try the built-in log: nextquery demo."
        )
    most_connections(settings.max_connections)  # an error now, not after the warm start
    table = explored(settings)  # of several workers, each reads its own later
    with ExitStack() as on_failure:
        listening = _listen(settings)  # before a store is made
        on_failure.callback(listening.close)
        pool, store = open_pool(settings), _open_store(settings)
        on_failure.callback(store.close)
        ring = KeyRing(store)
        keys = keys_needed(settings, ring)
        token = new_token() if keys is None else None
        prepare(
            pool,
            store,
            settings.engine_options(),
            progress=progress,
            forget=forget,
            owners=[NO_OWNER] if keys is None else keys.owners(),
        )
        on_failure.pop_all()
    listening.listen(2048)  # from here on connections wait instead of failing
    port = listening.getsockname()[1]
    if settings.workers == 1:
        opener = partial(open_pool, settings)
        engine = Engine(pool, store, settings.engine_options(), open_pool=opener)
        warm_up(engine)
        query = next(iter(example_queries(engine.catalogue, 1)), "A QUERY")
        lines = greeting(settings, port, arms=len(pool), token=token, query=query)
        app = create_app(engine, settings, keys=keys, watched=ring, token=token, table=table)
        _run_here(app, settings, listening, print_line, lines)
        engine.close()
    else:
        store.close()
        del table
        lines = greeting(settings, port, arms=len(pool), token=token)
        leave(pool)
        _run_workers(settings, listening, print_line, lines, open_pool, token)


def _run_here(
    app: FastAPI,
    settings: Settings,
    listening: socket.socket,
    print_line: PrintLine,
    lines: list[str],
) -> None:
    server = uvicorn.Server(_config(app, settings))
    _on_stop_signal(lambda: setattr(server, "should_exit", True))
    responses.start(level=settings.log_level, messages=settings.log_queries)
    keep_what_is_loaded()
    for line in lines:
        print_line(line)
    server.run(sockets=[listening])


def _run_workers(
    settings: Settings,
    listening: socket.socket,
    print_line: PrintLine,
    lines: list[str],
    open_pool: OpenPool,
    token: str | None,
) -> None:
    with tempfile.TemporaryDirectory(prefix="nextquery-workers-") as folder:
        secrets = {n: v.get_secret_value() for n, v in settings if isinstance(v, SecretStr)}
        keys = "on" if token is None else settings.keys
        chosen = settings.model_dump() | secrets | {"keys": keys}
        opener = f"{open_pool.__module__}:{open_pool.__qualname__}"
        shared = {"settings": chosen, "token": token, "parent": os.getpid(), "open_pool": opener}
        (Path(folder) / "worker.json").write_text(json.dumps(shared))
        os.environ[_FOLDER] = folder
        config = _config(
            "nextquery.service.server:worker", settings, workers=settings.workers, factory=True
        )
        supervisor = Multiprocess(config, sockets=[listening])
        _on_stop_signal(supervisor.should_exit.set)
        responses.start(level=settings.log_level, messages=settings.log_queries)
        failed = Path(folder) / _FAILED

        def greet() -> None:
            while not any(Path(folder).glob(f"{_READY}*")):
                if failed.exists():  # the others would fail in the same way, again and again
                    supervisor.should_exit.set()
                if supervisor.should_exit.wait(0.05):
                    return
            for line in lines:
                print_line(line)

        threading.Thread(target=greet, daemon=True).start()
        supervisor.run()
        if failed.exists() and not any(Path(folder).glob(f"{_READY}*")):
            raise StorageError(failed.read_text(encoding="utf-8"))


def _on_stop_signal(stop: Callable[[], None]) -> None:
    """Call `stop` on SIGTERM and ctrl-c; the process then exits with code 0."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())


def worker() -> FastAPI:
    """Create the application of one of several workers, in the worker process."""
    shared = json.loads((Path(os.environ[_FOLDER]) / "worker.json").read_text())
    settings = Settings(**shared["settings"])
    responses.start(level=settings.log_level, messages=settings.log_queries)
    threading.Thread(target=_stop_with, args=(shared["parent"],), daemon=True).start()
    try:
        app = _worker_app(settings, shared["open_pool"], shared["token"])
    except NextqueryError as error:  # one sentence, no traceback
        responses.LOGGER.error("this worker cannot start: %s", error)
        part = Path(os.environ[_FOLDER]) / f"{_FAILED}-{os.getpid()}"
        part.write_text(str(error), encoding="utf-8")
        part.replace(part.with_name(_FAILED))
        sys.exit(1)
    keep_what_is_loaded()
    (Path(os.environ[_FOLDER]) / f"{_READY}{os.getpid()}").touch()
    return app


def _worker_app(settings: Settings, opener: str, token: str | None) -> FastAPI:
    open_pool, store = partial(pkgutil.resolve_name(opener), settings), _open_store(settings)
    table, pool, options = explored(settings), open_pool(), settings.engine_options()
    engine = Engine.start(pool, store, options, open_pool=open_pool)
    warm_up(engine)
    ring = KeyRing(store)
    keys = ring if settings.keys == "on" else None
    return create_app(engine, settings, keys=keys, watched=ring, token=token, table=table)


def _open_store(settings: Settings) -> Store:
    return Store.open(settings.store, answer_s=settings.store_timeout_s)


def keys_needed(settings: Settings, ring: KeyRing) -> KeyRing | None:
    """Return the keys that requests need, or None if paths below admin need none."""
    here = is_loopback(settings.host)
    if settings.keys == "off" and not here:
        raise InvalidInput(
            f"host={settings.host} with keys=off would let everyone on the network in. keys=off is "
            "only allowed on 127.0.0.1, ::1 and localhost: leave --keys out, or listen there."
        )
    if settings.keys == "off" or (settings.keys == "auto" and here and not ring.has_any()):
        return None
    if not ring.has_any():
        raise InvalidInput(
            ("keys=on" if settings.keys == "on" else f"host={settings.host}")
            + " needs API keys, and the store has none. Create one: nextquery keys create NAME "
            f"--scope write --store {without_password(settings.store)}"
        )
    return ring


def check_address(settings: Settings) -> None:
    """Raise if another process has the port, before anything slow starts."""
    _listen(settings).close()


def _listen(settings: Settings) -> socket.socket:
    """Bind the socket, before anything slow starts."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise InvalidInput(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}. "
            "Pass another --port; 0 takes any free one."
        ) from None
    listening.set_inheritable(True)
    return listening


def _config(app: Any, settings: Settings, **more: Any) -> LimitedConfig:
    most = most_connections(settings.max_connections)
    return LimitedConfig(
        app,
        limits=ConnectionLimits(most, settings.header_timeout_s, settings.idle_timeout_s),
        log_config=None,
        access_log=False,  # our request log has request ids and no queries
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=_DRAIN_S,
        timeout_worker_healthcheck=_HUNG_S,
        **more,
    )


def _stop_with(parent: int) -> None:
    """Stop this worker when the process that started it is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
