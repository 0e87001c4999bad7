"""An environment whose observation is its own config, exactly as it was written."""

import json
import sys

config = "null"
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "hello":
        config = line[line.index('"config":') + len('"config":') : line.rindex("}")]
        reply = '{"id":%d,"ok":true,"observation_space":{"type":"Custom","repr":"x"}}' % request["id"]
    else:
        reply = '{"id":%d,"obs":%s}' % (request["id"], config)
    print(reply, flush=True)
