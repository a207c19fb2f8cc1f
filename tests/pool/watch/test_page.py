"""The page of `pool watch`: its contents, what browsers make of it, and what its server answers to whom."""

from __future__ import annotations

import http.client
import json
import math
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pool.commands.main import main
from pool.errors import UnavailableError
from pool.telemetry.status import Status, write_status
from pool.watch import server
from pool.watch.contents import Watch
from pool.watch.lives import LOG
from pool.watch.page import page_of
from pool.watch.server import PageServer
from tests.pool.analysis.test_run_tools import made, supervised
from tests.support.chromium import page_in_browser

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


# --- from the server ---


@contextmanager
def served(*folders: Path, host: str = "127.0.0.1") -> Iterator[PageServer]:
    made = PageServer(Watch(folders), host, 0)
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
        assert (entered.status, entered.getheader("Location")) == (303, "/")
        cookie = str(entered.getheader("Set-Cookie"))
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert get(page, "/contents.json", Cookie=cookie.partition(";")[0]).status == 200
        assert get(page, "/contents.json", "192.0.2.1:80").status == 200  # an address that leads here, behind a router


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
