"""The few routes of the hub that an upload to a Space uses, on loopback."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hub(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hub = self.server
        hub.tokens.add(self.headers.get("Authorization"))
        here = f"http://127.0.0.1:{hub.server_port}"
        if hub.refuses:
            self._answer({"error": "no"}, 403)
        elif self.path == "/api/repos/create":
            hub.created.append(json.loads(body))
            self._answer({"url": f"{here}/spaces/someone/demo", "id": "someone/demo"})
        elif self.path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            self._answer({"files": [_mode(each) for each in files]})
        elif self.path.endswith("/info/lfs/objects/batch"):
            objects = [
                {**each, "actions": {"upload": {"href": f"{here}/lfs/{each['oid']}"}}}
                for each in json.loads(body)["objects"]
            ]
            self._answer({"transfer": "basic", "objects": objects})
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    hub.files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    hub.files[value["path"]] = hub.large[value["oid"]]
            self._answer({"commitUrl": f"{here}/c/1", "commitOid": "1" * 40})
        else:
            self._answer({"error": self.path}, 404)

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.large[hashlib.sha256(content).hexdigest()] = content
        self._answer({})

    def _answer(self, value: dict, status: int = 200) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_arguments: object) -> None:
        pass


def _mode(file: dict) -> dict:
    large = file["path"].endswith((".safetensors", ".npz", ".png"))
    return {**file, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}


@contextmanager
def fake_hub(*, refuses: bool = False):
    hub = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    hub.files, hub.large, hub.created, hub.tokens, hub.refuses = {}, {}, [], set(), refuses
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
