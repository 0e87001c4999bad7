import { randomBytes } from "node:crypto";
import { chmodSync, readdirSync, rmSync } from "node:fs";
import type { Server as HttpServer } from "node:http";
import { createServer, type Server } from "node:net";
import { join, resolve } from "node:path";

/** sockaddr_un has room for 108 bytes on Linux and 104 elsewhere, the final zero included. */
const LONGEST_PATH_BYTES = 103;
const NAME = /^api-[0-9a-f]{16}\.sock$/;

/** A second way in for clients on this host. */
export interface LocalSocket {
  readonly path: string;
  close(): Promise<void>;
}

/**
 * Serves the same routes, with the same key and limits, on a unix socket in the data folder: a round trip over it takes half of one over loopback
 * TCP (bench topic `roundtrip`). Its name is new at each start, so that a client that reaches another host's server through a forwarded port never
 * finds this one instead. Null where the path is too long. The caller holds the data folder's lock.
 */
export async function openLocalSocket(
  http: HttpServer,
  dataDir: string,
  maxConnections: number,
): Promise<LocalSocket | null> {
  for (const name of readdirSync(dataDir)) {
    if (NAME.test(name)) rmSync(join(dataDir, name), { force: true });
  }
  const path = resolve(dataDir, `api-${randomBytes(8).toString("hex")}.sock`);
  if (Buffer.byteLength(path) > LONGEST_PATH_BYTES) return null;
  const server = createServer((socket) => http.emit("connection", socket));
  server.maxConnections = maxConnections;
  await listen(server, path);
  chmodSync(path, 0o600);
  return { path, close: () => new Promise((done) => server.close(() => done())) };
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((done, reject) => {
    server.once("error", reject);
    server.listen(path, () => {
      server.off("error", reject);
      done();
    });
  });
}
