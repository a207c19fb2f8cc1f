"""The page of `pool watch`: its contents, what browsers make of it, and what its server answers to whom."""

from __future__ import annotations

import http.client
import http.server
import json
import math
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pool.commands.main import main
from pool.errors import ConfigError, UnavailableError
from pool.telemetry import web
from pool.telemetry.status import Status, write_status
from pool.watch import server
from pool.watch.contents import Watch
from pool.watch.lives import LOG
from pool.watch.page import page_of
from pool.watch.server import PageServer
from pool.watch.token import read_token
from tests.pool.analysis.test_run_tools import made, supervised
from tests.support.chromium import page_in_browser
from tests.support.wait import wait_for

EVIL = "x</script><script>document.title='run'</script><!--&\"'${title}"


def log(run: Path, *lines: str) -> None:
    (run / LOG).parent.mkdir(exist_ok=True)
    (run / LOG).write_text("".join(f"2026-01-02 03:04:05,678 INFO {line}\n" for line in lines))


def contents(*folders: Path) -> dict[str, Any]:
    """As the page gets them: JSON, strictly."""
    looked = json.dumps(Watch(folders).look(), allow_nan=False)
    return dict(json.loads(looked))


# --- what it holds ---


def test_the_page_holds_what_the_folder_says(tmp_path: Path) -> None:
    run = made(tmp_path / "one", 0.1, [3, 2, 1], {2: 4.0, 3: 5.0}, task="a")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('\n{"step": 2, "time": 3.0, "net_elo": 7.5}\n')
    write_status(run, Status(1.0, 1, 2e9, 75, "worker 0 died\nagain"))
    log(run, "feeder (incarnation 1): Ready: it has spoken", "feeder (incarnation 1): Dead: it was killed by SIGBUS")
    page = contents(run)
    (shown,) = page["runs"]
    assert (shown["run"], shown["state"], shown["step"], shown["steps"]) == (str(run), "crashed", 3, 9)
    assert (shown["exit_code"], shown["reason"], shown["restarts"]) == (75, "worker 0 died\nagain", 1)
    assert shown["curves"]["steps"]["loss"] == [3, 2, 1]
    assert shown["curves"]["steps"]["samples_per_second"] == [None, 400, 400]
    assert shown["curves"]["validations"] == {"step": [2, 3], "validation_loss": [4, 5]}
    assert shown["curves"]["nets"] == {"step": [2], "time": [3], "net_elo": [7.5]}
    assert [change[1:] for change in shown["lanes"][0]["changes"]] == [
        ["Ready", "it has spoken"],
        ["Dead", "it was killed by SIGBUS"],
    ]
    assert [death["why"] for death in shown["deaths"]] == ["it was killed by SIGBUS"]


def test_settings_that_differ_stand_in_the_table_also_those_that_json_has_no_number_for(tmp_path: Path) -> None:
    runs = [made(tmp_path / str(lr), lr, [3], {}, task="a") for lr in (0.1, float("inf"))]
    page = contents(*runs)
    assert page["keys"] == ["optimizer.args.lr"]
    assert [run["settings"] for run in page["runs"]] == [["0.1"], ["Infinity"]]


def test_losses_that_do_not_compare_are_named(tmp_path: Path) -> None:
    runs = [made(tmp_path / task, 0.1, [3], {}, task=task) for task in "ab"]
    assert any("losses do not compare" in note for note in contents(*runs)["notes"])


def test_a_run_is_followed_and_so_is_a_folder_that_gets_more_runs(tmp_path: Path) -> None:
    made(tmp_path / "one", 0.1, [3, 2], {}, task="a")
    watch = Watch([tmp_path])
    assert [run["step"] for run in watch.look()["runs"]] == [2]
    with (tmp_path / "one/metrics.jsonl").open("a") as file:
        file.write('\n{"step": 3, "loss": 1.0, "samples_per_second": 100}\n')
    made(tmp_path / "two", 0.1, [5], {}, task="a")
    assert [run["curves"]["steps"]["loss"] for run in watch.look()["runs"]] == [[3, 2, 1], [5]]
    (tmp_path / "one/metrics.jsonl").write_text('{"step": 1, "loss": 9.0}\n')  # begun anew
    assert [run["curves"]["steps"]["loss"] for run in watch.look()["runs"]] == [[9], [5]]
    (tmp_path / "two/config.json").write_text("{")
    looked = watch.look()
    assert [run["step"] for run in looked["runs"]] == [1]
    assert any("two" in note for note in looked["notes"])


def test_a_run_that_goes_on_has_its_state_from_the_lock(tmp_path: Path) -> None:
    run = made(tmp_path / "one", 0.1, [3], {}, task="a")
    with supervised(run):
        assert contents(run)["runs"][0]["state"] == "running"
    assert contents(run)["runs"][0]["state"] == "crashed"


def test_members_of_an_ensemble_have_curves_and_a_row_each(tmp_path: Path) -> None:
    ensemble = {"members": 2}
    run = made(tmp_path / "one", 0.1, [], {}, task="a", ensemble=ensemble, schedule={}, loss={}, model={})
    tree = json.loads((run / "config.json").read_text())
    tree["run"] |= {"seed": 1}
    (run / "config.json").write_text(json.dumps(tree))
    record = {"step": 1, "loss": 2.0, "members": {"loss": [1.0, float("nan")]}}
    (run / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    (shown,) = contents(run)["runs"]
    assert shown["curves"]["steps"]["member.0.loss"] == [1]
    assert [(member["member"], member["last_loss"]) for member in shown["members"]] == [(0, 1), (1, None)]


def test_checkpoints_and_a_stages_network_are_named(tmp_path: Path) -> None:
    run = made(tmp_path / "one", 0.1, [3], {}, task="a")
    assert contents(run)["runs"][0]["checkpoints"] == {"steps": [], "newest": -1, "best": -1}
    for step in (2, 5):
        (run / f"checkpoints/step-{step:09}").mkdir(parents=True)
    (run / "checkpoints/last").symlink_to("step-000000005")
    (run / "stage.json").write_text('{"network": "nn-1.nnue", "test_ended": 0}')
    (run / "nn-1.nnue").touch()
    (shown,) = contents(run)["runs"]
    assert shown["checkpoints"] == {"steps": [2, 5], "newest": 5, "best": -1}
    assert shown["network"] == {"name": "nn-1.nnue", "tested": True}


# --- as a file ---


class Scripts(HTMLParser):
    """The scripts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.outside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.found.append(dict(attrs))
        self.outside += [str(value) for name, value in attrs if name in ("src", "href")]


def test_the_report_is_one_file_and_names_of_runs_are_text(tmp_path: Path) -> None:
    run = made(tmp_path / EVIL.replace("/", "|"), 0.1, [3, 2, 1], {}, task="</script><script>")
    write_status(run, Status(1.0, 0, 2.0, 1, EVIL))
    assert main(["watch", str(run), "-o", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert Scripts(page).found == [{"type": "application/json", "id": "contents"}, {}, {}]
    assert Scripts(page).outside == []
    assert main(["watch", str(run), "-o", str(tmp_path / "report.html")]) == 2
    assert main(["watch", str(run), "-o", str(tmp_path / "report.html"), "--force"]) == 0


@pytest.mark.parametrize("output", ["missing/report.html", "."])
def test_a_report_that_can_not_be_written_is_one_line(output: str, tmp_path: Path, capfd: Any) -> None:
    run = made(tmp_path / "one", 0.1, [3], {})
    assert main(["watch", str(run), "-o", str(tmp_path / output)]) == 2
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_what_is_no_run_is_one_line_before_anything_is_served(tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "empty").mkdir()
    for folder in ("missing", "empty"):
        assert main(["watch", str(tmp_path / folder)]) == 2
        out, err = capfd.readouterr()
        assert folder in err
        assert (out, len(err.splitlines())) == ("", 1)


@pytest.mark.parametrize("losses", [[3, 2, 1], [0, -1, 1], [-1, 0, -2], [math.nan, 1, 1e-300], [1e308, 1, 2]])
@pytest.mark.parametrize(
    ("choice", "chosen"), [("", ""), ('"time"', '"time" selected'), ('id="log"', 'id="log" checked')]
)
def test_a_browser_shows_the_report(choice: str, chosen: str, losses: list[float], tmp_path: Path) -> None:
    run = made(tmp_path / EVIL.replace("/", "|"), 0.1, losses, {1: 5.0, 2: 4.0}, task="a")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()[:-1]]
    (run / "metrics.jsonl").write_text(
        "".join(json.dumps({"time": 9.0 + at, **line}) + "\n" for at, line in enumerate(lines))
    )
    write_status(run, Status(1.0, 1, 2e9, 75, "worker 0 died"))
    log(run, "worker 0 (incarnation 1): Ready: it has spoken", "worker 0 (incarnation 1): Dead: it <b>fell</b>")
    report = tmp_path / "report.html"
    report.write_text(page_of(Watch([run]).look()).replace(choice, chosen, 1))
    page = page_in_browser(report.as_uri(), tmp_path / "profile")
    assert page.count("<canvas") == 3  # loss, validations and speed; what the run has no numbers of has no chart
    for text in ("worker 0 died", "it &lt;b&gt;fell&lt;/b&gt;", "exit code 75", "3/9"):
        assert text in page
    assert "<title>run" not in page


NOTES_CUT_LABELS = """<script>
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const width = this.measureText(text).width;
  const left = x - width * ({right: 1, end: 1, center: 0.5}[this.textAlign] ?? 0);
  const label = document.createElement("p");
  label.textContent = `label ${text} ${left < 0 || left + width > this.canvas.width ? "is cut" : "is whole"}`;
  document.body.append(label);
  fillText.apply(this, arguments);
};
</script>"""


def test_labels_of_millions_are_whole(tmp_path: Path) -> None:
    run = made(tmp_path / "one", 0.1, [], {}, task="a")
    records = [
        {"step": 1_500_000 * at, "time": 9.0 + at, "loss": 4e6 - at, "samples_per_second": 2.5e7 + 1e6 * at}
        for at in range(1, 4)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    page = page_of(Watch([run]).look())
    page = re.sub(r"<meta http-equiv=.*>", "", page).replace("<script type", f"{NOTES_CUT_LABELS}<script type", 1)
    (tmp_path / "report.html").write_text(page)
    shown = page_in_browser((tmp_path / "report.html").as_uri(), tmp_path / "profile")
    assert "label 3,000,000 is whole" in shown
    assert re.search("label 2[5-8],[0-9]{3},000 is whole", shown)
    assert re.findall("label .* is cut", shown) == []


# --- from the server ---


@contextmanager
def served(*folders: Path, host: str = "127.0.0.1", **more: Any) -> Iterator[PageServer]:
    made = PageServer(Watch(folders), host, 0, **more)
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join()


def get(
    page: PageServer,
    path: str = "/",
    host: str | None = None,
    *,
    method: str = "GET",
    token: str | None = None,
    **more: str,
) -> http.client.HTTPResponse:
    """Asks at the loopback address, whatever the name in the request is; with the page's token, or another cookie."""
    address = urlsplit(page.url)
    connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=30)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{address.port}" if host is None else host)
    token = address.query.removeprefix("token=") if token is None else token
    for name, value in {"Cookie": f"sparsepool-{address.port}={token}", **more}.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    answer.body = answer.read()  # type: ignore[attr-defined]
    connection.close()
    return answer


def test_a_browser_follows_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.0)
    run = made(tmp_path / "one", 0.1, [3, 2], {}, task="a")
    looks = 0

    class Growing(Watch):
        def look(self) -> dict[str, Any]:
            nonlocal looks
            looks += 1
            if looks == 2:
                with (run / "metrics.jsonl").open("a") as file:
                    file.write('\n{"step": 3, "loss": 1.0, "samples_per_second": 100}\n')
            return super().look()

    monkeypatch.setattr(sys.modules[__name__], "Watch", Growing)
    with served(run) as page:
        shown = page_in_browser(page.url, tmp_path / "profile")
    assert looks > 1
    assert "3/9" in shown


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:7373", "", "127.0.0.1.evil.example", "[", "a@127.0.0.1:x"],
)
def test_another_name_than_its_own_is_refused(host: str, tmp_path: Path) -> None:
    """Whoever has made a name point to this machine can't read the answers through the user's browser."""
    with served(made(tmp_path / "one", 0.1, [3], {})) as page:
        answer = get(page, "/contents.json", host)
        assert answer.status == 421
        assert b"loss" not in answer.body  # type: ignore[attr-defined]
        assert get(page, "/contents.json", "localhost:1").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/config.json",
        "/metrics.jsonl",
        "/../config.json",
        "/%2e%2e/etc/passwd",
        "/page.js",
        "//etc/passwd",
        "/one/config.json",
    ],
)
def test_no_file_is_served_by_its_name(path: str, tmp_path: Path) -> None:
    with served(made(tmp_path / "one", 0.1, [3], {})) as page:
        assert get(page, path).status == 404


def test_only_get_is_answered(tmp_path: Path) -> None:
    with served(made(tmp_path / "one", 0.1, [3], {})) as page:
        assert get(page, method="POST").status == 405
        assert get(page, method="HEAD").status == 200


def test_nothing_is_sent_again_that_has_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.0)
    run = made(tmp_path / "one", 0.1, [3], {})
    with served(run) as page:
        tag = str(get(page, "/contents.json").getheader("ETag"))
        assert get(page, "/contents.json", If_None_Match=tag).status == 304
        with (run / "metrics.jsonl").open("a") as file:
            file.write('\n{"step": 2, "loss": 1.0}\n')
        assert get(page, "/contents.json", If_None_Match=tag).status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_whoever_does_not_know_the_token_sees_nothing(host: str, tmp_path: Path) -> None:
    with served(made(tmp_path / "one", 0.1, [3], {}), host=host) as page:
        token = page.url.partition("?token=")[2]
        assert len(token) >= 32
        for wrong in ("", "x", token[:-1], "%ff"):
            for path in ("/", "/contents.json"):
                assert get(page, path, token=wrong).status == 403
                assert get(page, f"{path}?token={wrong}", token="").status == 403
        entered = get(page, f"/?token={token}", token="")
        assert (entered.status, entered.getheader("Location")) == (303, "./")
        cookie = str(entered.getheader("Set-Cookie"))
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert get(page, "/contents.json", Cookie=cookie.partition(";")[0]).status == 200
        assert get(page, "/contents.json", "192.0.2.1:80").status == 200  # an address that leads here, behind a router


@contextmanager
def proxy_at(prefix: str, port: int) -> Iterator[str]:
    """A proxy that shows a server at a path of its own, as nginx's `location /pool/ { proxy_pass http://...:PORT/; }`.
    Everything else there is another site."""

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(prefix):
                self.send_error(404, "another site")
                return
            server = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            server.request("GET", self.path[len(prefix) - 1 :], headers=headers)
            answer = server.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            server.close()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        yield f"http://localhost:{proxy.server_address[1]}{prefix}"
        proxy.shutdown()
        thread.join()


def test_a_browser_follows_a_run_behind_a_path_of_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.0)
    with served(made(tmp_path / "one", 0.1, [3, 2], {}, task="a")) as page:
        port, token = urlsplit(page.url).port or 0, urlsplit(page.url).query
        with proxy_at("/some/pool/", port) as address:
            shown = page_in_browser(f"{address}?{token}", tmp_path / "profile")
    assert "2/9" in shown
    assert ">read 20" in shown  # by its script, from beside the page


def test_names_that_are_allowed_are_answered(tmp_path: Path) -> None:
    with served(made(tmp_path / "one", 0.1, [3], {}), allowed_names=["Hub.example"]) as page:
        assert get(page, host="hub.example").status == 200
        assert get(page, host="HUB.example:8088").status == 200
        refused = get(page, host="evil.hub.example")
        assert (refused.status, b"--allow-host" in refused.body) == (421, True)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["", "hub.example:80", "http://hub.example", "hub.example/pool", "*", ".x"])
def test_a_name_that_no_host_has_is_refused(name: str, tmp_path: Path, capfd: Any) -> None:
    run = made(tmp_path / "one", 0.1, [3], {})
    assert main(["watch", str(run), "--allow-host", name]) == 2
    assert "--allow-host: " in capfd.readouterr().err


def test_a_token_stays_the_same_in_a_file_that_nobody_else_reads(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = read_token(path)
    assert len(token) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_token(path) == token
    with served(made(tmp_path / "one", 0.1, [3], {}), token=token) as page:
        assert page.url.endswith(f"?token={token}")
        assert get(page, f"/?token={token}", token="").status == 303
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=f"--token-file: {path} may be read by others than its owner: chmod 600"):
        read_token(path)
    path.chmod(0o600)
    for text in ("", "short", "with a space in the line", "a&b" * 10, "a" * 300):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"--token-file: .* holds no token"):
            read_token(path)
    with pytest.raises(ConfigError, match=r"--token-file: .*No such file"):
        read_token(tmp_path / "missing/token")


@pytest.fixture
def slow_clients() -> Iterator[Callable[[int, int], None]]:
    """Opens connections that begin a request, and never end it."""
    opened: list[socket.socket] = []

    def open_some(port: int, count: int) -> None:
        for _ in range(count):
            opened.append(socket.create_connection(("127.0.0.1", port)))
            opened[-1].sendall(b"G")

    yield open_some
    for connection in opened:
        connection.close()


def test_clients_that_send_a_byte_now_and_then_lock_nobody_out(
    tmp_path: Path, slow_clients: Callable[[int, int], None]
) -> None:
    with served(made(tmp_path / "one", 0.1, [3], {})) as page:
        slow_clients(urlsplit(page.url).port or 0, 3 * web.MOST_CONNECTIONS)
        for _ in range(5):
            assert get(page).status == 200


def test_a_request_has_a_limit_however_its_bytes_are_spread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "REQUEST_SECONDS", 0.5)
    with served(made(tmp_path / "one", 0.1, [3], {})) as page:
        connection = socket.create_connection(("127.0.0.1", urlsplit(page.url).port or 0))
        connection.settimeout(0.05)
        ended: list[bytes] = []

        def send_a_byte() -> bool:
            with suppress(TimeoutError):
                try:
                    connection.sendall(b"G")
                    ended.append(connection.recv(1))
                except ConnectionError:
                    ended.append(b"")
            return bool(ended)

        wait_for(send_a_byte, "the end of the connection", 20)
        assert ended == [b""]
        connection.close()


def test_an_address_that_can_not_be_had_is_one_line(tmp_path: Path) -> None:
    with served(made(tmp_path / "one", 0.1, [3], {})) as page:
        port = urlsplit(page.url).port or 0
        with pytest.raises(UnavailableError, match="port 0"):
            PageServer(Watch([]), "127.0.0.1", port)
    with pytest.raises(UnavailableError, match="no such name"):
        PageServer(Watch([]), "no such name", 0)


def test_ctrl_c_ends_it_and_the_runs_have_not_been_written_to(tmp_path: Path) -> None:
    run = made(tmp_path / "one", 0.1, [3], {})
    before = {path: path.stat().st_mtime_ns for path in (run, *run.iterdir())}
    command = [sys.executable, "-m", "pool", "watch", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline()
        assert address.startswith("http://127.0.0.1:")
        process.send_signal(2)
        assert process.wait(60) == 0
    assert {path: path.stat().st_mtime_ns for path in (run, *run.iterdir())} == before
