import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { SandpoolError, type WrittenFile, type WrittenTree } from "@sandpool/protocol";
import type { LiveMachine, WriteFileOptions } from "@sandpool/worker";
import { mediaType } from "../batches/requests.ts";
import { checkHash, readHashHeader } from "./checkHash.ts";
import { RequestBody } from "./requestBody.ts";

/** Where a file goes. */
export interface FileTarget {
  path: string;
  user: string | null;
  /** Null: 0644, or what it had. */
  mode: number | null;
  parents: boolean;
}

/**
 * Writes a request's body to a file. Resolves once it is safely there under its name, with the hash of what was written; whatever goes wrong
 * before leaves what was there.
 */
export async function uploadFile(
  live: LiveMachine,
  { path, ...target }: FileTarget,
  request: IncomingMessage,
  idleMs: number,
): Promise<WrittenFile> {
  refuseEncoding(request);
  const expected = readHashHeader(request.headers["x-sandpool-sha256"]);
  const announced = request.headers["content-length"];
  const size = announced === undefined ? null : Number(announced);
  return await withBody(request, idleMs, expected, (source, signal) => {
    const options: WriteFileOptions = { ...target, size, signal };
    return live.writeFile(path, source, options);
  });
}

/** Extracts a request's body, a tar, below `path`. */
export async function uploadTree(
  live: LiveMachine,
  { path, user }: { path: string; user: string | null },
  request: IncomingMessage,
  idleMs: number,
): Promise<WrittenTree> {
  refuseEncoding(request);
  return await withBody(request, idleMs, null, (source) => live.writeTree(path, source, { user }));
}

async function withBody<Result>(
  request: IncomingMessage,
  idleMs: number,
  expectedHash: string | null,
  write: (source: Readable, signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const body = new RequestBody(request, idleMs);
  const checked = expectedHash === null ? null : checkHash(expectedHash);
  const source = checked ?? body;
  const broken = new AbortController();
  const fail = (error: Error): void => {
    checked?.destroy(error);
    broken.abort(error);
  };
  body.on("error", fail);
  checked?.on("error", (error) => broken.abort(error));
  if (checked !== null) body.pipe(checked);
  try {
    return await write(source, broken.signal);
  } catch (error) {
    // The agent knows only that the bytes broke off; why is known here.
    throw broken.signal.aborted && isRemote(error) ? broken.signal.reason : error;
  } finally {
    body.destroy();
    checked?.destroy();
  }
}

function isRemote(error: unknown): boolean {
  return !(error instanceof SandpoolError) || error.code === "file_invalid" || error.code === "invalid_request";
}

/** Bytes are written as they are: a compressed body would become a compressed file. */
function refuseEncoding({ headers }: IncomingMessage): void {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity") throw mediaType("Content-Encoding", encoding);
}
