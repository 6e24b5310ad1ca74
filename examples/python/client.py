#!/usr/bin/env python3
# Asks the model `digits` of examples/gateway for one row: client.py ADDRESS (unix:/run/spillway-gateway/frames.sock of a
# gateway on this host, 192.0.2.1:8001 of one elsewhere).
import sys

import spillway

if len(sys.argv) != 2:
    sys.exit("usage: client.py ADDRESS, such as unix:/run/spillway-gateway/frames.sock")
client = spillway.Client(sys.argv[1])
x = client.tensor((1, 784), "float32")  # in the window: not copied, not sent
x[:] = 0  # memory comes as it is: fill all of it
print(client.infer("digits", x))
client.free(x)  # its room in the window: nothing else gives that back
