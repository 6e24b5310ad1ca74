"""A stand-in for the API server of Kubernetes: two GPU nodes, the pods that were bound, the binding subresource.
Prints its port. Refuses the bindings of pods whose name begins with "refused". /calls: the verbs and resources that
it was asked for, as roles name them."""
import http.server
import json

nodes = [
    {"metadata": {"name": "gpu-a", "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
     "nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "81920"}}, "status": {"allocatable": {"cpu": "63"}}},
    {"metadata": {"name": "gpu-b", "labels": {"nvidia.com/gpu.product": "Tesla-T4",
     "nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "15360"}}, "status": {"allocatable": {"cpu": "31800m"}}},
    {"metadata": {"name": "cpu-1"}, "status": {"allocatable": {"cpu": "16"}}},
]
pods = {}
calls = set()


def call_of(method, path, query):
    """Verb and resource of /api/v1/[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]."""
    parts = path.split("/")[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    resource = "/".join(parts[:1] + parts[2:3])
    if method == "GET" and len(parts) == 1:
        return "watch" if "watch=1" in query else "list", resource
    return {"GET": "get", "POST": "create", "PATCH": "patch"}[method], resource


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def allowed(self):
        path, _, query = self.path.partition("?")
        calls.add(call_of(self.command, path, query))
        if self.headers.get("Authorization") == "Bearer the-token":
            return True
        self.answer(401, {"kind": "Status", "message": "Unauthorized"})
        return False

    def do_GET(self):
        if self.path == "/calls":
            return self.answer(200, sorted(calls))
        if not self.allowed():
            return
        path = self.path.split("?")[0]
        if path == "/api/v1/nodes":
            self.answer(200, {"kind": "NodeList", "metadata": {}, "items": nodes})
        elif path.startswith("/api/v1/nodes/"):
            self.answer(200, next(node for node in nodes if node["metadata"]["name"] == path.rsplit("/", 1)[1]))
        elif path == "/api/v1/namespaces":
            self.answer(200, {"kind": "NamespaceList", "metadata": {}, "items": []})
        elif path == "/api/v1/pods" and "watch=1" in self.path:
            self.answer(403, {"kind": "Status", "message": "pods is forbidden: watch"})
        elif path == "/api/v1/pods":
            self.answer(200, {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": list(pods.values())})
        else:
            name = path.rsplit("/", 1)[1]
            self.answer(*((200, pods[name]) if name in pods else (404, {"message": "not found"})))

    def do_PATCH(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        meta = next(n for n in nodes if n["metadata"]["name"] == self.path.rsplit("/", 1)[1])["metadata"]
        if body["metadata"]["resourceVersion"] != meta.get("resourceVersion", ""):
            return self.answer(409, {"kind": "Status", "message": "the object has been modified"})
        meta.setdefault("annotations", {}).update(body["metadata"]["annotations"])
        meta["resourceVersion"] = str(int(meta.get("resourceVersion") or 0) + 1)
        self.answer(200, {"metadata": meta})

    def do_DELETE(self):
        pods.pop(self.path.rsplit("/", 1)[1], None)
        self.answer(200, {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        name = self.path.split("/")[-2]
        if name.startswith("refused"):
            return self.answer(403, {"kind": "Status", "message": "pods/binding is forbidden"})
        if name in pods:
            return self.answer(409, {"kind": "Status", "message": f"pod {name} is already assigned"})
        pods[name] = {"metadata": body["metadata"], "spec": {"nodeName": body["target"]["name"], "containers": [
            {"resources": {"requests": {"cpu": "2", "spillway.io/gpu-milli": "470"}}}]},
            "status": {"phase": "Running"}}
        self.answer(201, {"kind": "Status", "status": "Success"})


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
