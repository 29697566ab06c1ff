"""Try nginx and Caddy in front of the service: what gets through, with and without API keys.

Run: python -m benchmarks.proxies pools/topics   (part of make soak)

Each proxy is tried in three ways: as docs/access.md shows it, with the Host of the visitor; with
the Host rewritten to this machine; and in the worst way for the service, with the Host rewritten
and no header that tells of a proxy. Everything listens on 127.0.0.1.
"""

import argparse
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2

from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.process import ServiceProcess

ADMIN = ("/v1/decisions", "/v1/export", "/v1/operate")
ASKED = {"session_id": "s", "query": "graph neural networks"}
PUBLIC = "search.example"  # the name that visitors use

NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://127.0.0.1:{service}; {headers} }}
  }}
}}
"""
CADDY = """
{{
  admin off
  auto_https off
}}
http://:{port} {{
  bind 127.0.0.1
  reverse_proxy 127.0.0.1:{service} {{
    {headers}
  }}
}}
"""
MARKED = {  # as in docs/access.md
    "nginx": "proxy_set_header Host $host; "
    "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
    "caddy": "header_up Host {host}",  # Caddy adds X-Forwarded-For by itself
}
REWRITTEN = {
    "nginx": "proxy_set_header Host 127.0.0.1; proxy_set_header X-Real-IP $remote_addr;",
    "caddy": "header_up Host 127.0.0.1",
}
UNMARKED = {
    "nginx": "proxy_set_header Host 127.0.0.1;",
    "caddy": "header_up Host 127.0.0.1\n    header_up -X-Forwarded-*\n    header_up -Via",
}


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        return int(found.getsockname()[1])


@contextmanager
def proxy(name: str, service: int, headers: str) -> Iterator[str]:
    """Run a proxy in front of the service; yield its address."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config"
        template = NGINX if name == "nginx" else CADDY
        config = template.format(folder=folder, port=port, service=service, headers=headers)
        path.write_text(config)
        command = {
            "nginx": ["nginx", "-c", str(path), "-p", folder, "-e", f"{folder}/error.log"],
            "caddy": ["caddy", "run", "--adapter", "caddyfile", "--config", str(path)],
        }[name]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}"
            while True:
                try:
                    httpx2.get(url, timeout=60)
                    break
                except httpx2.TransportError:
                    if process.poll() is not None:
                        raise SystemExit(f"{name} ended with code {process.returncode}") from None
            yield url
        finally:
            process.terminate()
            process.wait()


def statuses(url: str, key: str | None) -> dict[str, int]:
    """Ask for one of each kind through the proxy, as a visitor would."""
    headers = {"Host": PUBLIC} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    with httpx2.Client(base_url=url, headers=headers, timeout=60) as client:
        found = {path: client.get(path).status_code for path in ADMIN}
        found["/v1/switch"] = client.post("/v1/switch", json={"on": True}).status_code
        found["/v1/recommend"] = client.post("/v1/recommend", json=ASKED).status_code
    return found


def check(title: str, found: dict[str, int], *, admin: set[int], recommend: set[int]) -> None:
    """Print what was answered; stop if it is not what may be answered."""
    print(f"{title:44s} {' '.join(f'{path}={status}' for path, status in found.items())}")
    for path, status in found.items():
        if status not in (recommend if path == "/v1/recommend" else admin):
            raise SystemExit(f"{title}: {path} answered {status}, which must not happen")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool")
    args = parser.parse_args()
    for name in ("nginx", "caddy"):
        if shutil.which(name) is None:
            print(f"SKIPPED: {name} is not installed, so it was NOT tried (apt-get install {name})")
            continue
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/events.db"
            with ServiceProcess(args.pool, url) as service:
                with proxy(name, service.port, MARKED[name]) as address:
                    found = statuses(address, None)
                    check(f"{name}, no keys", found, admin={400}, recommend={400})
                with proxy(name, service.port, REWRITTEN[name]) as address:
                    found = statuses(address, None)
                    check(f"{name} rewritten, no keys", found, admin={403}, recommend={403})
                with proxy(name, service.port, UNMARKED[name]) as address:
                    found = statuses(address, None)
                    check(f"{name} unmarked, no keys", found, admin={401}, recommend={200})
            with closing(Store.open(url)) as store:
                ring = KeyRing(store)
                keys = {s: ring.create(name=s, scope=s)[1] for s in ("write", "admin")}
            with ServiceProcess(args.pool, url) as service:
                for kind, headers in (("", MARKED[name]), (" unmarked", UNMARKED[name])):
                    with proxy(name, service.port, headers) as address:
                        title = f"{name}{kind}, keys on"
                        closed = statuses(address, None)
                        check(f"{title}, sent none", closed, admin={401}, recommend={401})
                        found = statuses(address, keys["write"])
                        check(f"{title}, sent write", found, admin={403}, recommend={200})
                        found = statuses(address, keys["admin"])
                        check(f"{title}, sent admin", found, admin={200}, recommend={200})
    print("no proxy let anybody in who should stay out")


if __name__ == "__main__":
    main()
