import { readFileSync } from "node:fs";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { fileURLToPath } from "node:url";
import type { MachineServer } from "../machineServer.ts";
import { until } from "../startTestServer.ts";

const PROGRAM = readFileSync(fileURLToPath(new URL("program.py", import.meta.url)), "utf8");

/** What the program says it was asked with. */
export interface Told {
  method: string;
  path: string;
  headers: [string, string][];
  sha256: string;
  length: number;
  trailers: string;
}

/** Runs the program on a machine's port; resolves once it listens. */
export async function serveInside(server: MachineServer, port: number, machine = server.box): Promise<void> {
  const argv = ["/usr/bin/python3", "-c", PROGRAM, String(port)];
  await server.exec({ argv, detach: true }, { machine });
  await until(async () => {
    const { ports } = (await server.api.send({ path: `/v1/machines/${machine}/ports` })).json as {
      ports: { port: number }[];
    };
    return ports.some((entry) => entry.port === port);
  });
}

export interface Asked {
  method?: string;
  path?: string;
  /** By `Host` where it is given, else below the machine's path. */
  host?: string;
  port?: number;
  machine?: string;
  headers?: Record<string, string | string[]>;
  body?: Buffer | string;
  key?: string | null;
  trailers?: Record<string, string>;
}

export interface Got {
  status: number;
  headers: IncomingMessage["headers"];
  rawHeaders: string[];
  body: Buffer;
  trailers: NodeJS.Dict<string>;
  message: string;
  told: Told;
  code: string | undefined;
}

/** One request to a port, on a connection of its own. */
export function ask(server: MachineServer, asked: Asked): Promise<Got> {
  const { method = "GET", path = "/", host, port = 8000, machine = server.box, headers = {}, body, trailers } = asked;
  const { key = server.api.running.key } = asked;
  const authorization = key === null ? {} : { authorization: `Bearer ${key}` };
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      host: "127.0.0.1",
      port: server.api.port,
      method,
      path: host === undefined ? `/v1/machines/${machine}/ports/${port}${path}` : path,
      headers: {
        ...(body === undefined || "transfer-encoding" in headers ? {} : { "content-length": Buffer.byteLength(body) }),
        ...authorization,
        ...(host === undefined ? {} : { host: `${host}:${server.api.port}` }),
        ...headers,
      },
      agent: false,
    });
    request.once("error", reject);
    request.once("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.once("error", reject);
      response.once("end", () => {
        const bytes = Buffer.concat(chunks);
        let json: unknown = {};
        try {
          json = JSON.parse(bytes.toString());
        } catch {}
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          rawHeaders: response.rawHeaders,
          body: bytes,
          trailers: response.trailers,
          message: response.statusMessage ?? "",
          told: json as Told,
          code: (json as { error?: { code: string } }).error?.code,
        });
      });
    });
    if (trailers !== undefined) request.addTrailers(trailers);
    request.end(body);
  });
}

export function headerOf(told: Told, name: string): string[] {
  return told.headers.filter(([header]) => header === name).map(([, value]) => value);
}
