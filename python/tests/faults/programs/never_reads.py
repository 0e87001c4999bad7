import json
import sys
import time

from plain import run

line = sys.stdin.readline()
print(json.dumps({"id": json.loads(line)["id"], "ok": True, "protocol": 1, "features": [], "rows": 1}), flush=True)
time.sleep(3600)
run(None)
