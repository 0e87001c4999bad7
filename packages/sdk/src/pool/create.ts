import type { CreateEvent, PoolReply } from "@sandpool/protocol";
import { packEnvironment } from "../archive/environment.ts";
import type { Archive } from "../archive/pack.ts";
import { ConnectionError, errorFromWire } from "../errors.ts";
import { readNdjson } from "../http/ndjson.ts";
import type { Reply, Transport } from "../http/transport.ts";
import { requestJson } from "../values/json.ts";
import { readDescription } from "./description.ts";
import { type PoolOptions, toCreateRequest } from "./options.ts";

/** Packs and uploads the environment (only if the server lacks it) and creates the pool, reporting progress. */
export async function createPool(
  transport: Transport,
  environmentPath: string,
  options: PoolOptions,
): Promise<PoolReply> {
  const request = toCreateRequest(options);
  const archive = await packEnvironment(environmentPath);
  await uploadArchive(transport, archive, options);
  const body = requestJson({ archive: archive.sha256, entry: archive.entry, ...request });
  const accept = "application/x-ndjson";
  return transport.send("POST", "/v1/pools", { body, accept, signal: options.signal }, (reply) =>
    followCreation(reply, options),
  );
}

async function uploadArchive(transport: Transport, archive: Archive, options: PoolOptions): Promise<void> {
  const path = `/v1/archives/${archive.sha256}`;
  if (await transport.exists(path, options.signal)) return;
  const total = archive.bytes.length;
  options.onProgress?.({ phase: "upload", done: 0, total });
  const upload = { body: archive.bytes, contentType: "application/zstd", retries: 3, signal: options.signal };
  await transport.json("PUT", path, upload);
  options.onProgress?.({ phase: "upload", done: total, total });
}

async function followCreation(reply: Reply, options: PoolOptions): Promise<PoolReply> {
  for await (const line of readNdjson(reply.body)) {
    const event = line as CreateEvent;
    if (event.event === "progress") {
      options.onProgress?.({ phase: event.phase, done: event.done, total: event.total });
    } else if (event.event === "pool") return readDescription(event.pool);
    else if (event.event === "error") throw errorFromWire(event.status, { error: event.error });
  }
  throw new ConnectionError("The creation's stream ended before the pool was ready; the server rolled it back.", {
    hint: "Check the server's log, then create the pool again.",
  });
}
