"""Access to a local host, and its files."""

import asyncio
import contextlib
import http.client
import os
import socket
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClosedError, websocket_connect

import hta_widgets as hw
from hta_widgets.cli import main, parser
from hta_widgets.cli.view import reopen_command
from hta_widgets.host import web
from hta_widgets.host.opening import Downloads
from hta_widgets.host.session import MAX_BYTES, Session, unpack
from hta_widgets.host.web import Site, listen, redirect_file
from hta_widgets.widgets.view import page_target


@pytest.fixture
def downloads():
    return Downloads()


@pytest.fixture
def site(downloads, built):
    session = Session(lambda _path: None)
    single = Site(session, downloads, listen(0), title="<b>job</b>")
    yield single
    single.end()


def get(site, path, *, host=None, cookie=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=10)
    headers = {"Host": host or f"127.0.0.1:{site.port}"}
    if cookie is None:
        cookie = f"{site.cookie}={site.token}"
    if cookie:
        headers["Cookie"] = cookie
    connection.request(method, path, headers=headers)
    reply = connection.getresponse()
    reply.body = reply.read()
    connection.close()
    return reply


def test_the_token_becomes_a_cookie_and_leaves_the_address(site):
    entrance = get(site, f"/?token={site.token}", cookie="")
    assert entrance.status == 200
    cookie, *rest = entrance.headers["Set-Cookie"].split("; ")
    assert cookie.partition("=")[0] == site.cookie
    assert sorted(rest) == ["HttpOnly", "Path=/", "SameSite=Strict"]
    assert b"url=/" in entrance.body
    assert site.token.encode() not in entrance.body
    page = get(site, "/", cookie=cookie)
    assert page.status == 200
    assert b"/static/view.js" in page.body
    assert b"&lt;b&gt;job" in page.body
    assert len(site.token) >= 43  # 256 bits


@pytest.mark.parametrize("path", ["/", "/static/view.js", "/text/" + "0" * 32, "/file/x", "/no"])
def test_no_one_gets_in_without_the_cookie(site, path):
    for cookie in ("", f"{site.cookie}=x", f"{site.cookie}={site.token[:-1]}", f"x={site.token}"):
        assert get(site, path, cookie=cookie).status == 403
    assert get(site, "/?token=x", cookie="").status == 403
    assert get(site, f"/static/view.js?token={site.token}", cookie="").status == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:9000", 200),
        ("localhost:9000", 200),
        ("[::1]:9000", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("evil.example:127.0.0.1", 403),
        ("localhost@evil.example", 400),
        ("0.0.0.0", 403),
    ],
)
def test_only_names_of_loopback_are_answered(site, host, status):
    assert get(site, "/", host=host).status == status
    assert get(site, f"/?token={site.token}", host=host, cookie="").status == status


@pytest.mark.parametrize(
    "path",
    [
        "/static/page.js",
        "/static/..%2fpage.js",
        "/static/../pyproject.toml",
        "/static/view.js/..",
        "/text/..%2f..%2fetc%2fpasswd",
        "/text/" + "0" * 32,
        "/file/..%2f..%2fetc%2fpasswd",
        "/file/",
        "//etc/passwd",
        "/etc/passwd",
    ],
)
def test_paths_lead_nowhere(site, path):
    reply = get(site, path)
    assert reply.status == 404
    assert b"Traceback" not in reply.body


@pytest.mark.parametrize("path", ["/", "/static/view.css", "/no", "/file/x"])
def test_every_reply_has_the_policy(site, path):
    for cookie in (None, ""):
        headers = get(site, path, cookie=cookie).headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; connect-src 'self';")
        assert "unsafe-eval" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert "tornado" not in headers["Server"].lower()
        assert "Access-Control-Allow-Origin" not in headers


def test_other_methods_are_refused(site):
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert get(site, "/", method=method).status in {403, 405}


@pytest.mark.parametrize("headers", ["Content-Length: 90000000", "Transfer-Encoding: chunked"])
def test_bodies_are_refused_before_they_are_read(site, headers):
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as client:
        client.sendall(f"POST / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n".encode())
        client.sendall(b"100000\r\n")
        assert client.recv(1000).split(b"\r\n")[0] == b"HTTP/1.1 400 Bad Request"


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost:",
     b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n12"],
)  # fmt: skip
def test_a_client_that_sends_nothing_more_is_dropped(downloads, built, monkeypatch, sent):
    monkeypatch.setattr(web, "_TIMEOUT_S", 0.05)
    site = Site(Session(lambda _path: None), downloads, listen(0), title="x")
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as client:
        client.sendall(sent)
        assert client.recv(1000) == b""
    site.end()


async def closed(one):
    one.close()
    while await one.read_message() is not None:
        pass


def own(site):
    """Return the headers that the host's own page sends."""
    return {"Cookie": f"{site.cookie}={site.token}", "Origin": f"http://127.0.0.1:{site.port}"}


def dial(site, headers):
    return websocket_connect(HTTPRequest(f"ws://127.0.0.1:{site.port}/ws", headers=headers))


def connect(site, *, send=None, **headers):
    """Return the status of a refusal, or the close code after `send`."""

    async def talk():
        try:
            single = await dial(site, headers)
        except HTTPClientError as error:
            return error.code
        if send is None:
            await closed(single)
            return None
        with contextlib.suppress(WebSocketClosedError):
            await single.write_message(send, binary=isinstance(send, bytes))
        while await single.read_message() is not None:
            pass
        single.close()
        return single.close_code

    return asyncio.run(talk())


def test_a_socket_is_for_the_page_of_this_host_only(site):
    page = own(site)
    assert connect(site, **page) is None
    for origin in (
        "http://evil.example",
        f"http://localhost:{site.port}",
        f"http://127.0.0.1:{site.port + 1}",
        f"https://127.0.0.1:{site.port}",
        f"{page['Origin']}.evil.example",
        "file://",
        "null",
        "",
        "http://[::1",
        "http://\xff]",
    ):
        assert connect(site, **{**page, "Origin": origin}) == 403, origin
    for name, value in page.items():
        assert connect(site, **{name: value}) == 403
    for host, code in (("localhost:9000", None), ("evil.example", 403)):
        assert connect(site, **{**page, "Host": host, "Origin": f"http://{host}"}) == code


def test_what_is_no_frame_ends_the_connection_not_the_host(site, monkeypatch):
    assert connect(site, send=b"no frame at all", **own(site)) == 1007
    assert connect(site, send="text", **own(site)) == 1007
    # The code is lost if the client is still writing when the host closes.
    assert connect(site, send=bytes(MAX_BYTES + 1), **own(site)) in {1009, None}
    assert get(site, "/").status == 200


def test_only_this_machine_is_served(site):
    with socket.socket() as probe:
        probe.settimeout(2)
        # Another address of this machine, at which a server on all addresses would answer.
        assert probe.connect_ex(("127.0.0.2", site.port)) != 0


def test_a_taken_port_is_an_error(site, capsys, tmp_path):
    (tmp_path / "a.json").write_text("{}")
    assert main(["view", str(tmp_path / "a.json"), "--port", str(site.port)]) == 2
    assert f"port {site.port} cannot be used" in capsys.readouterr().err
    assert main(["view", str(tmp_path / "a.json"), "--port", "70000"]) == 2


def test_a_file_is_handed_out_once(site, downloads):
    (downloads.written / "out.json").write_text("{}")
    name, address = downloads.offer(downloads.written / "out.json")
    assert name == "out.json"
    assert not any(downloads.written.iterdir())
    assert get(site, address, cookie="").status == 403
    reply = get(site, address)
    assert (reply.status, reply.body) == (200, b"{}")
    assert reply.headers["Content-Disposition"] == "attachment; filename*=UTF-8''out.json"
    assert get(site, address).status == 404
    assert list(downloads.folder.iterdir()) == [downloads.written]


def test_a_folder_comes_as_one_file_and_other_paths_do_not_come(downloads, tmp_path):
    folder = downloads.written / "ranks"
    folder.mkdir()
    (folder / "rank-0.json").write_text("{}")
    name, address = downloads.offer(folder)
    assert name == "ranks.zip"
    path = downloads.take(address.removeprefix("/file/"))
    assert zipfile.ZipFile(path).namelist() == ["rank-0.json"]
    for other in (tmp_path / "x", Path("/etc/passwd"), downloads.written / ".." / "x", Path("x")):
        assert downloads.offer(other) is None


def test_the_token_is_in_a_file_for_the_user_alone():
    path = redirect_file("http://127.0.0.1:1/?token=secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "token=secret" in path.read_text()
    assert "secret" not in path.as_uri()


def test_pages_are_told_when_the_host_ends(downloads, built):
    site = Site(Session(lambda _path: None), downloads, listen(0), title="x")

    async def wait():
        single = await dial(site, own(site))
        await asyncio.to_thread(site.end)
        assert await single.read_message() is None
        single.close()
        return single.close_code

    assert asyncio.run(wait()) == 1001


def test_without_pages_an_idle_host_ends(downloads, built):
    session = Session(lambda _path: None)
    site = Site(session, downloads, listen(0), title="x", idle_minutes=1e-4)
    session.run()
    site.end()


def test_pages_of_a_folder_get_its_entries(downloads, built, tmp_path, monkeypatch):
    monkeypatch.setattr(web, "_REFRESH_EVERY_S", 0.02)
    trace = '{"traceEvents": []}'
    (tmp_path / "a.json").write_text(trace)
    folder = web.Folder(tmp_path)
    folder.refresh()
    site = Site(Session(lambda _path: None), downloads, listen(0), title="x", folder=folder)

    async def read():
        single = await dial(site, own(site))
        first, _ = unpack(await single.read_message())
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub/b.json").write_text(trace)
        second, _ = unpack(await single.read_message())
        await closed(single)
        return first, second

    first, second = asyncio.run(read())
    site.end()
    assert (first["type"], first["title"]) == ("folder", "x")
    assert [entry["path"] for entry in first["entries"]] == ["a.json"]
    assert {entry["path"] for entry in second["entries"]} == {"a.json", "sub/b.json"}


def test_the_watch_of_a_folder_outlives_any_error(downloads, built, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(web, "_REFRESH_EVERY_S", 0.02)
    folder = web.Folder(tmp_path)
    answers = iter([RecursionError("too deep"), OSError("gone"), False, True])
    site = Site(Session(lambda _path: None), downloads, listen(0), title="x", folder=folder)

    def refresh():
        answer = next(answers, False)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(folder, "refresh", refresh)

    async def read():
        page = await dial(site, own(site))
        frames = [unpack(await page.read_message())[0] for _ in range(2)]
        await closed(page)
        return [frame["type"] for frame in frames]

    assert asyncio.run(read()) == ["folder", "folder"]
    site.end()
    assert "RecursionError: too deep" in capfd.readouterr().err


def test_the_command_prints_addresses_and_ends_with_ctrl_c(tmp_path, built, repo):
    (tmp_path / "my trace.json").write_text('{"traceEvents": []}')
    env = os.environ | {"SSH_CONNECTION": "1 2 3 4", "PYTHONPATH": str(repo), "DISPLAY": ""}
    # A shell that runs the tests in the background ignores the signal, and so would the command.
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heeds}; from hta_widgets.cli import main; raise SystemExit(main())"
    command = [sys.executable, "-c", program, "view", str(tmp_path / "my trace.json")]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as host:
        try:
            lines = []
            for line in host.stdout:
                lines.append(line)
                if "Ctrl+C" in line:
                    break
            [address] = [line for line in lines if "token=" in line]
            port = address.split(":")[2].split("/")[0]
            assert any(f"ssh -L {port}:127.0.0.1:{port} " in line for line in lines)
            shown = Path(f"/proc/{host.pid}/cmdline")
            if shown.exists():
                assert address.split("token=")[1].strip() not in shown.read_text()
            host.send_signal(2)
            assert host.wait(30) == 0
        finally:
            host.kill()


def test_the_command_to_run_again():
    options = parser().parse_args(["view", "my run", "--compare", "b", "--no-browser"])
    assert reopen_command(options) == "hta-widgets view 'my run' --compare b"


def test_two_folders_to_compare_only(capsys):
    assert main(["view", "a", "b", "--compare", "c"]) == 2
    assert "--compare takes one PATH" in capsys.readouterr().err


def test_pages_write_into_the_folder_of_downloads_only(downloads, monkeypatch):
    monkeypatch.setattr(hw.options, "export_dir", downloads.written)
    with pytest.raises(hw.TraceError, match="outside"):
        page_target("../x.json", overwrite=True)
    target = page_target("x.json", overwrite=False)
    assert target == downloads.written.resolve() / "x.json"
