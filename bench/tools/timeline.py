"""timeline.py URL OUT: what the mock server counts, 20 times a second until the end: seconds, items, in flight, rejected."""
import http.client, json, sys, time, urllib.parse

server = http.client.HTTPConnection(urllib.parse.urlsplit(sys.argv[1]).netloc)
begun = time.monotonic()
with open(sys.argv[2], "w", buffering=1) as out:
    while True:
        server.request("GET", "/stats")
        s = json.loads(server.getresponse().read())
        print(f"{time.monotonic() - begun:.3f}", s["items"], s["in_flight"], s["rejected"], file=out)
        time.sleep(0.05)
