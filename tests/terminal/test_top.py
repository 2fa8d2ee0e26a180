"""`headgate top` in a real terminal: typed keys, and the screen that a user sees."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.headgate_cli import headgate
from harness.page import Page
from harness.processes import free_ports
from harness.scheduler_process import send, wait_for
from harness.tmux import PROMPT, TmuxTerminal
from shown_objects import a_job, a_pod
from simulated_clusters import any_flavor, kueue_queue, volcano_queue

COMPONENTS = "apiserver,nodes,controllers,scheduler,quota,jobs"
PODS = "/api/v1/namespaces/default/pods"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GATE = "example.com/data"
HOSTILE = "\x1b]0;forged\x07\x1b[31mred\u202egnp 日本語 😀"
LONGEST = "a" * 253
HEADING = "headgate top"
MANY = 40


@pytest.fixture(scope="module")
def server(tmux: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """``tmux``: without it no server is started."""
    flags = ("--components", COMPONENTS, "--nodes", "3", "--dashboard-listen", "127.0.0.1:0")
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), flags=flags, disabled_plugins="")
    try:
        send(running, "POST", QUEUES, volcano_queue("q", cpu=2))
        send(running, "POST", f"{KUEUE}/resourceflavors", any_flavor())
        cluster_queue, local_queue = kueue_queue("kq", 2)
        send(running, "POST", f"{KUEUE}/clusterqueues", cluster_queue)
        send(running, "POST", f"{KUEUE}/namespaces/default/localqueues", local_queue)
        send(running, "POST", PODS, a_pod("runs", "2"))
        wait_for(lambda: send(running, "GET", f"{PODS}/runs")["spec"].get("nodeName"))
        for index in range(MANY):
            send(running, "POST", PODS, a_pod(f"waits-{index:02}"))
        send(running, "POST", PODS, a_pod("held", gates=(GATE,)))
        send(running, "POST", PODS, a_pod("hostile", queue=HOSTILE))
        send(running, "POST", PODS, a_pod(LONGEST, queue="missing"))
        for name in ("first", "second"):
            send(running, "POST", "/apis/batch/v1/namespaces/default/jobs", a_job(name))
        yield running
    finally:
        running.disconnect()
        running.stop()


Open = Callable[..., TmuxTerminal]


@pytest.fixture
def open_terminal(tmux: Path, server: EmbeddedServer) -> Iterator[Open]:
    """Opens a terminal in which ``headgate`` talks to the server."""
    opened: list[TmuxTerminal] = []

    def open_(kubeconfig: Path = server.kubeconfig, columns: int = 100, rows: int = 30, **env: str) -> TmuxTerminal:
        path = f"{HEADGATE.parent}{os.pathsep}{os.environ['PATH']}"
        opened.append(TmuxTerminal(tmux, {"KUBECONFIG": str(kubeconfig), "PATH": path, **env}, columns, rows))
        return opened[-1]

    yield open_
    for each in opened:
        each.close()


@pytest.fixture
def top(open_terminal: Open) -> TmuxTerminal:
    """`headgate top` with the overview."""
    terminal = open_terminal()
    terminal.run("headgate top")
    terminal.wait_for(HEADING, "live", "pods created")
    return terminal


# -- what is shown -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("1", ("waiting: ", "behind other gates", "3 of 3 ready", "cpu", "default")),
        ("2", ("waits-00", "QueueFull", "queue q has no capacity for")),
        ("3", ("root", "  q", "2 of 2 used", "Open")),
        ("4", ("kq", "ClusterQueue", "2 of 2 used", "default/kq")),
        ("5", (GATE, "not known")),
        ("6", ("node-0001", "ready", "% cpu")),
        ("7", ("queue/missing", "does not exist")),
    ],
)
def test_every_view_shows_data(top: TmuxTerminal, key: str, texts: tuple[str, ...]) -> None:
    top.press(key)
    top.wait_for(*texts)


def test_a_change_is_shown_without_a_key(top: TmuxTerminal, server: EmbeddedServer) -> None:
    top.press("3")
    top.wait_for("2 of 2 used", without="just-made")
    send(server, "POST", QUEUES, volcano_queue("just-made", cpu=7))
    top.wait_for("just-made", timeout_s=20)
    send(server, "DELETE", f"{QUEUES}/just-made")
    top.wait_for("2 of 2 used", without="just-made", timeout_s=20)


def test_a_pause_shows_no_change_until_it_ends(top: TmuxTerminal, server: EmbeddedServer) -> None:
    top.press("3")
    top.wait_for("2 of 2 used")
    top.press("p")
    top.wait_for("paused")
    send(server, "POST", QUEUES, volcano_queue("later", cpu=7))
    wait_for(lambda: "later" in headgate("queues", "--kubeconfig", server.kubeconfig)[1])
    assert "later" not in top.screen()
    top.press("p")
    top.wait_for("later", "live")
    send(server, "DELETE", f"{QUEUES}/later")


def test_rates_are_drawn_as_sparklines(top: TmuxTerminal, server: EmbeddedServer) -> None:
    send(server, "POST", PODS, a_pod("counted"))
    top.wait_until(lambda screen: any(each in screen.partition("pods created")[2] for each in "▃▄▅▆▇█"))
    send(server, "DELETE", f"{PODS}/counted")


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_filter_is_typed_kept_and_dropped(top: TmuxTerminal) -> None:
    top.press("2")
    top.wait_for("waits-00")
    top.type("/waits-17")
    top.wait_for("filter: waits-17", "waits-17", without="waits-00")
    top.press("Enter")
    top.wait_for("filter: waits-17; Esc: none   1 line")
    top.press("Escape")
    top.wait_for("waits-00")


def test_the_details_are_those_of_headgate_explain(top: TmuxTerminal, server: EmbeddedServer) -> None:
    words = ("explain", "pod", "waits-00", "-n", "default", "--no-estimate", "--kubeconfig", server.kubeconfig)
    code, explained, problem = headgate(*words)
    assert code == 0, problem
    top.press("2")
    top.type("/waits-00")
    top.press("Enter", "Enter")
    screen = top.wait_for("held by", "next", "history", "created")
    for line in explained.splitlines():
        if line.startswith(("pod ", "held", "  queue")):
            assert line.split(";")[0][:90] in screen, (line, screen)
    top.press("Escape")
    top.wait_for("filter: waits-00")


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        (("3", "End", "Enter"), ("queue q: ", "held by 1 pods", "pod default/runs")),
        (("3", "End", "l"), ("units of Queue q, in order", "waits-00")),
        (("4", "Enter"), ("clusterqueue kq: ", "held by 1 Workloads")),
        (("4", "Down", "Enter"), ("localqueue default/kq: ",)),
        (("5", "Enter"), ("waits longest", "is removed by", "in namespace default")),
        (("6", "Enter"), ("node node-0001: ready", "requested")),
        (("1", "Enter"), ("namespace default", "pods that wait for their queue")),
        (("?",), ("Keys", "pause the updates", "sort by the next column")),
    ],
)
def test_details_of_other_rows_and_the_help(top: TmuxTerminal, keys: tuple[str, ...], texts: tuple[str, ...]) -> None:
    for key in keys:
        top.press(key)
    top.wait_for(*texts)
    top.press("Escape")
    top.wait_for("q quit", without=texts[0])


def test_rows_scroll_with_the_selection(top: TmuxTerminal) -> None:
    top.press("2")
    top.wait_for("waits-00")
    top.press("G")
    top.wait_for(f"waits-{MANY - 1}", without="waits-00")
    top.press("g", "g")
    top.wait_for("waits-00")


def test_sorting_and_its_sign(top: TmuxTerminal) -> None:
    top.press("6")
    top.wait_for("NODE ↑")
    top.press("r")
    screen = top.wait_for("NODE ↓")
    assert screen.index("node-0003") < screen.index("node-0001")
    top.press("s", "s")
    top.wait_for("STATE ↑")


# -- the terminal ------------------------------------------------------------------------------------------------------


def test_the_picture_follows_the_size_of_the_terminal(top: TmuxTerminal) -> None:
    top.press("2")
    top.wait_for("IN WORDS")
    top.resize(40, 12)
    screen = top.wait_for("Waiting  2 of 7", without="IN WORDS")
    assert max(map(len, screen.splitlines())) <= 40
    assert "QueueFull" in screen
    top.resize(160, 40)
    top.wait_for("ASKS", "IN WORDS", "7 Problems")


@pytest.mark.parametrize("ending", ["q", "C-c", "SIGTERM", "SIGHUP"])
def test_the_terminal_is_restored_at_the_end(open_terminal: Open, ending: str, tmp_path: Path) -> None:
    terminal = open_terminal()
    terminal.run("echo was there before")
    terminal.run(f"sh -c 'echo $$ > {tmp_path}/pid; exec headgate top'; echo status $?")
    terminal.wait_for(HEADING, "live")
    assert terminal.fact("alternate_on") == "1"
    if ending.startswith("SIG"):
        os.kill(int((tmp_path / "pid").read_text()), signal.Signals[ending])
    else:
        terminal.press(ending)
    terminal.wait_for("was there before", "status 0", without="q quit")
    assert terminal.fact("alternate_on") == "0"
    assert terminal.fact("cursor_flag") == "1"
    terminal.run("stty -a")
    terminal.wait_for(" echo ", " icanon ")


def test_the_program_can_be_stopped_and_continued(open_terminal: Open) -> None:
    terminal = open_terminal()
    terminal.run("headgate top --view queues")
    terminal.wait_for("2 of 2 used")
    terminal.press("C-z")
    terminal.wait_for("Stopped")
    assert terminal.fact("alternate_on") == "0"
    terminal.run("fg")
    terminal.wait_for("2 of 2 used", "live", without=PROMPT)
    terminal.press("q")
    terminal.wait_for("Stopped", PROMPT)


def test_hostile_names_are_text(top: TmuxTerminal) -> None:
    title = top.fact("pane_title")
    for key in ("2", "G", "7", "Enter"):
        top.press(key)
    top.wait_for("\\u001b]0;forged\\u0007\\u001b[31mred\\u202egnp 日本語 😀")
    top.press("Escape", "2")
    top.type(f"/{LONGEST[:60]}")
    top.press("Enter")
    screen = top.wait_for("1 line")
    assert max(map(len, screen.splitlines())) <= 100
    assert top.fact("pane_title") == title


def colours(screen: str) -> bool:
    return any(f"\x1b[{code}m" in screen for code in (31, 32, 33, 36))


def test_colours_are_left_out_with_no_color(open_terminal: Open, top: TmuxTerminal) -> None:
    top.press("7")
    top.wait_for("queue/missing")
    assert colours(top.styled_screen())
    plain = open_terminal(NO_COLOR="1")
    plain.run("headgate top --view problems")
    plain.wait_for("queue/missing", "live")
    assert not colours(plain.styled_screen())


@pytest.mark.parametrize("command", ["TERM=dumb headgate top --view queues", "headgate top --view queues --once"])
def test_one_picture_is_printed_where_no_live_one_is_possible_or_wanted(open_terminal: Open, command: str) -> None:
    terminal = open_terminal()
    terminal.run(f"{command}; echo status $?")
    screen = terminal.wait_for("2 of 2 used", "status 0")
    assert HEADING not in screen.replace(command, "")


def test_a_pipe_gets_the_rows_as_text(server: EmbeddedServer) -> None:
    code, printed, problem = headgate("top", "--view", "waiting", "--kubeconfig", server.kubeconfig)
    assert (code, problem) == (0, "")
    assert printed.count("waits-") >= MANY
    assert printed.isascii() or "\x1b" not in printed
    assert LONGEST in printed


def test_the_json_is_that_of_the_page(server: EmbeddedServer) -> None:
    page = Page(server._process.log)
    for view, topics in (
        ("queues", "queues"),
        ("quota", "cluster-queues"),
        ("nodes", "nodes"),
        ("problems", "problems"),
    ):
        code, printed, problem = headgate("top", "--view", view, "-o", "json", "--kubeconfig", server.kubeconfig)
        assert (code, problem) == (0, "")
        shown = {row["key"]: row for row in json.loads(printed)["topics"][topics]}
        assert shown == page.rows(topics)
    everything = json.loads(headgate("top", "-o", "json", "--kubeconfig", server.kubeconfig)[1])["topics"]
    assert {*everything} == {"overview", "queues", "cluster-queues", "waiting", "gates", "nodes", "problems"}


def test_keys_need_a_terminal(server: EmbeddedServer) -> None:
    outer, inner = pty.openpty()
    try:
        done = subprocess.run(
            [HEADGATE, "top", "--kubeconfig", server.kubeconfig],
            stdin=subprocess.DEVNULL,
            stdout=inner,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that /dev/tty is no terminal either
            env={**os.environ, "TERM": "xterm"},
            text=True,
            timeout=60,
        )
    finally:
        os.close(inner)
        os.close(outer)
    assert done.returncode == 1
    assert "there is no terminal to read keys from" in done.stderr
    assert "--once" in done.stderr


# -- the cluster -------------------------------------------------------------------------------------------------------


def test_a_missing_right_is_named(open_terminal: Open, server: EmbeddedServer, tmp_path: Path) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    send(server, "POST", accounts, {"metadata": {"name": "limited"}})
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list", "watch"]},
    ]
    send(server, "POST", f"{RBAC}/clusterroles", {"metadata": {"name": "limited"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "limited", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"}
    binding = {"metadata": {"name": "limited"}, "roleRef": role, "subjects": [subject]}
    send(server, "POST", f"{RBAC}/clusterrolebindings", binding)
    token = send(server, "POST", f"{accounts}/limited/token", {"spec": {}})["status"]["token"]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(server.kubeconfig.read_text().replace(server.token, token))
    terminal = open_terminal(kubeconfig)
    terminal.run("headgate top --view nodes")
    screen = terminal.wait_for("missing right: list nodes", "nothing can be shown without the missing right")
    assert "there are no nodes" not in screen
    terminal.press("2")
    terminal.wait_for("waits-00", "missing right: list workloads.kueue.x-k8s.io")
    code, printed, problem = headgate("top", "--view", "queues", "--kubeconfig", kubeconfig)
    assert code == 0
    assert "there are no Queues" not in printed
    assert "missing right: list queues.scheduling.volcano.sh" in problem


def test_a_server_that_was_killed_is_waited_for(open_terminal: Open, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    flags = ("--components", COMPONENTS, "--nodes", "1", "--no-dashboard", "--listen", f"127.0.0.1:{port}")
    running = EmbeddedServer(tmp_path, flags=flags)
    try:
        send(running, "POST", QUEUES, volcano_queue("before", cpu=2))
        terminal = open_terminal(running.kubeconfig)
        terminal.run("headgate top --view queues")
        terminal.wait_for("before", "live")
        running.kill()
        screen = terminal.wait_for("reconnecting for", "no connection: ")
        assert "before" in screen, "the rows stay"
        running.restart(flags)
        send(running, "POST", QUEUES, volcano_queue("after", cpu=2))
        terminal.wait_for("before", "after", "live", without="no connection")
    finally:
        running.disconnect()
        running.stop()


def test_a_server_that_is_not_there_at_the_start_is_an_error(tmp_path: Path, server: EmbeddedServer) -> None:
    (port,) = free_ports(1)
    kubeconfig = tmp_path / "kubeconfig"
    address = server.kubeconfig.read_text().partition("https://")[2].split()[0]
    kubeconfig.write_text(server.kubeconfig.read_text().replace(address, f"127.0.0.1:{port}"))
    code, printed, problem = headgate("top", "--kubeconfig", kubeconfig)
    assert (code, printed) == (1, "")
    assert f"headgate top: https://127.0.0.1:{port} cannot be reached" in problem
