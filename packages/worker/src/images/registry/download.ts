import { createHash } from "node:crypto";
import { open, rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { SandpoolError } from "@sandpool/protocol";
import { imageFailed } from "../failed.ts";
import { checkDigest, type Descriptor } from "../manifests.ts";
import type { RegistryClient } from "./client.ts";

const attempts = 3;
const pauseMs = 1000;

/** Writes a blob to `path`, and has it there only with the bytes that its digest names. A broken connection is tried again. */
export async function downloadBlob(
  client: RegistryClient,
  blob: Descriptor,
  path: string,
  signal: AbortSignal,
  onBytes: (bytes: number) => void,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    let received = 0;
    try {
      return await receive(client, blob, path, (bytes) => {
        received += bytes;
        onBytes(bytes);
      });
    } catch (error) {
      await rm(path, { force: true });
      signal.throwIfAborted();
      if (error instanceof SandpoolError) throw error;
      if (attempt === attempts) throw brokenOff(blob, received, error);
      onBytes(-received);
      await sleep(pauseMs * attempt, undefined, { signal });
    }
  }
}

async function receive(
  client: RegistryClient,
  blob: Descriptor,
  path: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const body = await client.stream(`blobs/${blob.digest}`);
  const hash = createHash("sha256");
  const file = await open(path, "wx", 0o600);
  let bytes = 0;
  try {
    for await (const chunk of body) {
      const buffer = chunk as Buffer;
      bytes += buffer.length;
      if (bytes > blob.bytes) throw imageFailed(`${blob.digest} has over the ${blob.bytes} bytes its manifest says.`);
      hash.update(buffer);
      await file.write(buffer);
      onBytes(buffer.length);
    }
  } finally {
    await file.close();
  }
  if (bytes < blob.bytes) throw new Error(`ended after ${bytes} of ${blob.bytes} bytes`);
  checkDigest(`sha256:${hash.digest("hex")}`, blob.digest);
}

function brokenOff(blob: Descriptor, received: number, cause: unknown): SandpoolError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return imageFailed(`The download of ${blob.digest} broke off ${attempts} times, at last after ${received} bytes.`, {
    hint: "Check the network between this host and the registry, and pull again.",
    details: { reason: reason.slice(0, 300) },
    cause,
  });
}
