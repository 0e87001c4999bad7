import { createLogger, createServer } from "../src/index.ts";
import { TestWorker } from "./testWorker.ts";

// Run as a program by lifecycle.test.ts: serves on the folder in argv[2] with one pool until it is killed.
const server = await createServer({
  worker: new TestWorker(),
  dataDir: String(process.argv[2]),
  listen: "127.0.0.1:0",
  credentialsFile: null,
  logger: createLogger({ level: "silent" }),
});
const reply = await fetch(`${server.url}/v1/pools`, {
  method: "POST",
  headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json", "idempotency-key": "once" },
  body: JSON.stringify({ archive: "a".repeat(64), entry: "env.py", n: 4, name: "walkers" }),
});
const { id } = (await reply.json()) as { id: string };
console.log(JSON.stringify({ url: server.url, key: server.key, poolId: id }));
