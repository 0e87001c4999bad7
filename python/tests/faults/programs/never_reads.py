import json
import sys
import time

from plain import run

hello = json.loads(sys.stdin.readline())
print(json.dumps({"id": hello["id"], "ok": True, "protocol": 1, "features": [], "rows": 1}), flush=True)
if hello["config"]["never_reads"]:
    time.sleep(3600)
run(None)
