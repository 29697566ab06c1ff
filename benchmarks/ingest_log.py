"""How much time and memory does it take to read, clean and protect a log?

    python benchmarks/ingest_log.py --rows 5000000

DuckDB writes a synthetic log (Zipfian queries in several spellings, users, times over three months,
some noise) to a temporary folder. `prepare` runs on it in a separate process, whose peak resident
memory is reported.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

CHILD = """
import json, resource, sys, time
from nextquery.logs import LogOptions, prepare
stages, started = {}, {}
def progress(stage, done):
    started.setdefault(stage, time.perf_counter())
    stages[stage] = time.perf_counter() - started[stage]
start = time.perf_counter()
options = LogOptions(memory_limit=sys.argv[2])
done = prepare(sys.argv[1], options, workdir=sys.argv[3], progress=progress)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"stages": stages, "seconds": seconds, "peak_bytes": peak,
                  "report": done.report.to_dict()}))
"""


def write_log(path: Path, rows: int) -> None:
    """Write a log with about one distinct query per five rows and eight queries per session."""
    connection = duckdb.connect()
    words = (
        "['weather', 'cheap', 'flights', 'neural', 'network', 'recipe', 'python', 'history', "
        "'map', 'paris', 'tax', 'guitar', 'quantum', 'garden', 'lyrics', 'battery', 'red', 'art']"
    )
    connection.execute(
        f"""
        COPY (
          SELECT user_id, strftime(make_timestamp((1.7e15 + day * 8.64e10 + hour * 3.6e9
                   + step * 6e7)::BIGINT), '%Y-%m-%d %H:%M:%S') AS time,
            CASE hash(i + 5) % 40 WHEN 0 THEN upper(q) WHEN 1 THEN replace(q, ' ', '+')
              WHEN 2 THEN '' WHEN 3 THEN rank::VARCHAR
              WHEN 4 THEN q || ' https://example.org/' || rank
              WHEN 5 THEN q || ' mail' || rank || '@example.org' ELSE q END AS query
          FROM (
            SELECT i, hash(i // 8) % ({rows} // 40 + 1) AS user_id, hash(i // 8 + 7) % 90 AS day,
              hash(i // 8 + 13) % 24 AS hour, i % 8 AS step,
              ({rows} // 4 * pow(hash(i + 3) % 1000003 / 1000003, 3))::BIGINT AS rank,
              {words}[rank % 18 + 1] || ' ' || {words}[rank // 18 % 18 + 1] || ' number '
                || rank || ' ' || {words}[rank // 324 % 18 + 1] AS q
            FROM range({rows}) t(i)
          )
        ) TO '{path}' (FORMAT csv, DELIMITER '\t', HEADER, QUOTE '"')
        """
    )
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.tsv")
        start = time.perf_counter()
        write_log(log, args.rows)
        written = time.perf_counter() - start
        work = Path(folder, "work")
        work.mkdir()
        answer = subprocess.run(
            [sys.executable, "-c", CHILD, str(log), args.memory_limit, str(work)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        result = json.loads(answer)
        assert not list(work.iterdir()), "prepare left files behind"
        if args.json:
            print(json.dumps(result))
            return
        size = log.stat().st_size / 2**20
        print(f"log: {args.rows:,} rows, {size:,.0f} MiB, written in {written:.1f} s")
    for stage, seconds in result["stages"].items():
        print(f"{stage:10} {seconds:6.1f} s")
    print(f"{'all':10} {result['seconds']:6.1f} s, {args.rows / result['seconds']:,.0f} rows/s")
    print(
        f"peak resident memory {result['peak_bytes'] / 2**30:.2f} GiB (DuckDB's limit "
        f"{args.memory_limit})"
    )
    for name, value in result["report"]["table2"].items():
        print(f"{name:30} {value:>14,}")
    pool = result["report"]["pool"]
    print(f"arms {pool['arms']:,}, sessions {pool['sessions']:,} after privacy")


if __name__ == "__main__":
    main()
