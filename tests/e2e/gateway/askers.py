#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""askers.py URL CLIENTS FILE TALLY: so many clients ask a gateway for the model `product` (1 x 2 by 2 x 1), each on a
connection of its own, one request after the other, until FILE exists. TALLY: how many were asked, and how many of them
failed."""
import http.client
import json
import os
import sys
import threading
import time
import urllib.parse

BODY = json.dumps({"inputs": [{"name": "a", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]},
                              {"name": "b", "datatype": "FP32", "shape": [2, 1], "data": [5, 6]}]})
PAUSE = 0.02  # leaves the processors to what is tested
PATIENCE = 60

url, clients, enough, tally = sys.argv[1:]
at = urllib.parse.urlsplit(url)
counts = [[0, 0] for _ in range(int(clients))]


def ask(count):
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=PATIENCE)
    while not os.path.exists(enough):
        count[0] += 1
        count[1] += 1  # until it was answered
        try:
            connection.request("POST", "/v2/models/product/infer", BODY)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status == 200 and json.loads(text)["outputs"][0]["data"] == [39.0]:
                count[1] -= 1
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            connection.close()
        time.sleep(PAUSE)


threads = [threading.Thread(target=ask, args=(count,)) for count in counts]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with open(tally, "w", encoding="utf-8") as file:
    print(*map(sum, zip(*counts)), file=file)
