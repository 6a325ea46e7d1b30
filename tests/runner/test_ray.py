"""Jobs on a Ray cluster: two nodes on this machine, of which one is lost midway."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from running import SMOKE, content, descendants, listening, run_all, wait_for

from spibb.errors import MissingDependencyError
from spibb.runner.engines import find_engine
from spibb.runner.ray_engine import jobs_per_task

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason='ray is not installed: pip install "spibb[ray]"'
)
# Jobs of more than 0.1 s, each a task of its own, so that a node is lost in the middle of one.
PLAN = replace(SMOKE, n_states=30, eta=(0.1, 0.5, 0.9), n_runs=192, runs_per_job=8)
OBJECT_STORE = 80_000_000

STUDY = """
import sys
from pathlib import Path
from spibb.studies.registry import find_plan
from spibb.studies.running import run_study
plan, out = find_plan(sys.argv[1]), Path(sys.argv[2])
for progress in run_study(plan, out, engine="ray"):
    print(progress.n_done, flush=True)
"""

# Many jobs too short to travel alone; then one that fails, one whose process dies every time.
SHORT_JOBS = """
import json, math, os
from spibb.runner.jobs import Job, JobError
from spibb.runner.ray_engine import run_ray

def jobs(*all_arguments):
    return [Job(str(n), f"number {n}", part) for n, part in enumerate(all_arguments)]

facts = {"roots": [], "errors": []}
numbers = jobs(*((float(n),) for n in range(500)), (-1.0,))
for function, work in ((math.sqrt, numbers), (os._exit, jobs((1,)))):
    try:
        for job, root in run_ray(function, work, workers=1):
            facts["roots"].append([job.name, root])
    except JobError as error:
        facts["errors"].append(str(error))
print(json.dumps(facts))
"""


@dataclass
class Node:
    """What ``ray start`` started: a process that stays, and its descendants."""

    process: subprocess.Popen

    @property
    def tree(self):
        return descendants(self.process.pid)

    def is_computing(self):
        return any(one.title.startswith("ray::_compute") for one in self.tree)

    def lose(self):
        """End every process of the node by its id, as when its machine loses power."""
        self.process.send_signal(signal.SIGSTOP)  # or it would tidy up
        doomed = self.tree
        for one in doomed:
            if one.is_alive:
                os.kill(one.pid, signal.SIGKILL)
        self.process.kill()
        self.process.communicate(timeout=60)
        for one in doomed:
            wait_for(lambda one=one: not one.is_alive, what=f"the end of {one}")


@pytest.fixture
def environment():
    """Ray's own folder, home and token; its sockets need a short path."""
    folder = Path(tempfile.mkdtemp(prefix="spibb-ray-"))
    (folder / "token").write_text(secrets.token_hex(32), encoding="utf-8")
    given = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    yield given | {
        "HOME": str(folder),
        "RAY_TMPDIR": str(folder),
        "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    shutil.rmtree(folder, ignore_errors=True)


def start_node(environment, *options):
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1",
               "--node-ip-address=127.0.0.1", f"--object-store-memory={OBJECT_STORE}",
               *options]  # fmt: skip
    log = Path(environment["HOME"]) / f"node-{secrets.token_hex(4)}.log"
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            command, env=environment | {"RAY_AUTH_MODE": "token"}, stdout=stream, stderr=stream,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    node = Node(process)
    try:
        wait_for(
            lambda: "Ray runtime started" in log.read_text("utf-8") or process.poll() is not None,
            what="ray start",
        )
        assert process.poll() is None, log.read_text("utf-8")
    except BaseException:
        node.lose()
        raise
    return node


@pytest.fixture
def cluster(environment):
    """A head and a worker node; returns the address and both."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    nodes = []
    try:
        nodes.append(
            start_node(
                environment, "--head", f"--port={port}", "--include-dashboard=false",
                f"--temp-dir={environment['RAY_TMPDIR']}/s",
            )
        )  # fmt: skip
        nodes.append(start_node(environment, f"--address=127.0.0.1:{port}"))
        yield f"127.0.0.1:{port}", *nodes
    finally:
        for node in reversed(nodes):
            if node.process.poll() is None:
                node.lose()


@needs_ray
def test_a_node_lost_midway_costs_only_time(tmp_path, environment, cluster):
    address, _, node = cluster
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.to_toml(), encoding="utf-8")
    driver = subprocess.Popen(
        [sys.executable, "-c", STUDY, plan, tmp_path / "ray"],
        env=environment | {"RAY_ADDRESS": address}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        parts = tmp_path / "ray" / "parts"
        wait_for(lambda: list(parts.glob("*.parquet")) and node.is_computing(), what="a task")
        node.lose()
        n_before = len(list(parts.glob("*.parquet")))
        output, errors = driver.communicate(timeout=100)
    finally:
        driver.kill()
    assert driver.returncode == 0, errors
    # Ray tells on the same stream that it has lost a node, when it pleases.
    told = [line for line in output.splitlines() if line.isdecimal()]
    assert told[-1] == str(len(PLAN.jobs())) == "24"
    assert n_before < 23, "the node was lost only after the study"
    run_all(PLAN, tmp_path / "here", workers=1)
    assert content(tmp_path / "ray") == content(tmp_path / "here")


@needs_ray
def test_a_cluster_of_its_own(environment):
    """One is started where no address is given, and ended, also by an error."""
    del environment["RAY_AUTH_TOKEN_PATH"]
    driver = subprocess.Popen(
        [sys.executable, "-c", SHORT_JOBS], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    started = wait_for(
        lambda: [one for one in descendants(driver.pid) if "raylet" in one.title], what="raylet"
    )
    listened = wait_for(lambda: listening(descendants(driver.pid)), what="an open port")
    output, errors = driver.communicate(timeout=100)
    assert driver.returncode == 0, errors
    assert listened <= {"127.0.0.1", "::ffff:7f00:1", "::1"}, "nobody else can reach it"
    assert not (Path(environment["HOME"]) / ".ray").exists(), "its token is not written down"
    # Ray itself tells of processes that died on the same stream.
    facts = json.loads([line for line in output.splitlines() if line.startswith("{")][-1])
    assert sorted(facts["roots"]) == sorted([str(n), n**0.5] for n in range(500))
    failed, died = facts["errors"]
    assert failed == "job 500 (number 500) failed: ValueError: math domain error."
    assert died.startswith("job 0 (number 0) failed: no node of the cluster could compute it (")
    for one in started:
        wait_for(lambda one=one: not one.is_alive, what=f"the end of {one}")


def test_short_jobs_travel_together():
    assert jobs_per_task(0.2, n_left=1_000, n_tasks=4) == 1
    assert jobs_per_task(0.001, n_left=1_000, n_tasks=4) == 50
    assert jobs_per_task(0.0, n_left=1_000, n_tasks=4) == 250
    assert jobs_per_task(0.001, n_left=3, n_tasks=4) == 1


def test_ray_is_asked_for_by_its_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # what Python itself notes of absent packages
    with pytest.raises(MissingDependencyError, match=r'run pip install "spibb\[ray\]"'):
        find_engine("ray")


@needs_ray
def test_a_cluster_that_is_not_there():
    code = """
from spibb.runner.ray_engine import run_ray
from spibb.runner.jobs import Job
list(run_ray(abs, [Job("0", "number 0", (1,))], address="127.0.0.1:1"))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "cannot reach the ray cluster at 127.0.0.1:1: ConnectionRefusedError" in done.stderr
    assert "RAY_AUTH_TOKEN_PATH" in done.stderr
