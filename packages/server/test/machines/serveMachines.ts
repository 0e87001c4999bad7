import { createWorker } from "@sandpool/worker";
import { createLogger, createServer } from "../../src/index.ts";

// Run as a program: serves machines of the folder in argv[2] until it is killed.
const dataDir = String(process.argv[2]);
const server = await createServer({
  worker: () => createWorker({ dataDir }),
  dataDir,
  listen: "127.0.0.1:0",
  credentialsFile: null,
  logger: createLogger({ level: "silent" }),
});
process.on("SIGTERM", () => void server.close().then(() => process.exit(0)));
process.on("SIGUSR2", () => void server.close({ stopMachines: true }).then(() => process.exit(0)));
console.log(JSON.stringify({ url: server.url, key: server.key }));
