import { createServer, type Server } from "node:net";
import { sleep } from "../concurrency.ts";

const RETRY_MS = 20;
const LIMIT_MS = 5_000;

/**
 * Runs `work` while no other server of this user on the host does. The lock is an abstract socket's name: the kernel gives it to
 * one process and takes it back when that process dies, so it can never be stale.
 */
export async function withHostLock<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
  const address = `\0sandpool-lock-${name}-${process.geteuid?.() ?? 0}`;
  const deadline = performance.now() + LIMIT_MS;
  let server = await tryListen(address);
  while (server === null) {
    if (performance.now() > deadline) {
      throw new Error(
        `another process holds the abstract socket @${address.slice(1)} for more than ${LIMIT_MS} ms; end it (ss -xlp)`,
      );
    }
    await sleep(RETRY_MS);
    server = await tryListen(address);
  }
  try {
    return await work();
  } finally {
    await close(server);
  }
}

function tryListen(address: string): Promise<Server | null> {
  return new Promise((resolve, reject) => {
    const server = createServer((connection) => connection.destroy());
    server.once("error", (error: NodeJS.ErrnoException) =>
      error.code === "EADDRINUSE" ? resolve(null) : reject(error),
    );
    server.listen(address, () => resolve(server));
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
