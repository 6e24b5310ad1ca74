"""Clients that send half a request and then nothing, or a byte now and then: health and metrics are answered
all the same, by a listener of their own that nobody can keep busy for long. Argument: the folder of the programs."""
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time

CONNECTIONS = 4  # of limits.connections; the default is 256
PATIENCE = 30  # s, after which something does not come any more


def fail(text):
    with open(log) as file:
        sys.exit(f"slow_clients_test: {text}\n{file.read()}")


def port_of(what):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and gateway.poll() is None:
        with open(log) as file:
            found = re.search(rf"{what} on .*port (\d+)$", file.read(), re.MULTILINE)
        if found:
            return int(found[1])
        select.select([], [], [], 0.02)
    fail(f"no port of {what}")


def send(port, text):
    client = socket.create_connection(("127.0.0.1", port), PATIENCE)
    client.sendall(text)
    return client


def get(port, path):
    return send(port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())


def answer(client, what):
    whole = b""
    try:
        while piece := client.recv(65536):
            whole += piece
    except TimeoutError:
        fail(f"{what}: no answer within {PATIENCE} s")
    return whole.decode()


def is_cut(client, piece):
    """Whether the other side ends it while we go on."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            client.sendall(piece)
            if select.select([client], [], [], 0.05)[0] and not client.recv(4096):
                return True
        except OSError:
            return True
    return False


def crowd():
    """All connections of http are taken by half a request each."""
    half = [send(http, b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
            for _ in range(CONNECTIONS)]
    # The server has read their headers. libmicrohttpd misses the end of a connection that came with what it reads first,
    # and then keeps it until limits.receive.
    for client in half:
        if not client.recv(4096).startswith(b"HTTP/1.1 100"):
            fail("no 100 Continue")
    waiting = get(http, "/v2/health/live")
    for path, expected in (("/v2/health/live", "live"), ("/metrics", "spillway_gateway_executors")):
        got = answer(get(health, path), path)
        if not got.startswith("HTTP/1.1 200") or expected not in got:
            fail(f"{path} beside {CONNECTIONS} half requests: {got}")
    if select.select([waiting], [], [], 0)[0]:
        fail("http is not full: the test shows nothing")
    for client in half:
        client.close()
    if not answer(waiting, "http, once they left").startswith("HTTP/1.1 200"):
        fail("http, once they left")


with tempfile.TemporaryDirectory() as work:
    log = os.path.join(work, "log")
    config = os.path.join(work, "gateway.yaml")
    with open(config, "w") as file:
        file.write("http: 127.0.0.1:0\nhealth: 127.0.0.1:0\n"
                   f"executors: {work}/executors.sock\n"
                   f"limits: {{connections: {CONNECTIONS}, receive: 10m, idle: 10m}}\n"
                   "tenants: [{name: everybody}]\n")
    with open(log, "w") as out:
        gateway = subprocess.Popen([os.path.join(sys.argv[1], "spillway-gateway"), "-c", config], stderr=out)
    try:
        http, health = port_of("http"), port_of("health")
        crowd()
        if not is_cut(send(health, b"GET /v2/health/live HTTP/1.1\r\nX-Long: "), b"a"):
            fail("a client may trickle into health for ever")
    finally:
        gateway.kill()
        gateway.wait()
print("passed")
