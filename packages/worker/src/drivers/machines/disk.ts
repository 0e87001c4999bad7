import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { constants, createZstdCompress, createZstdDecompress } from "node:zlib";
import { TOOL_PATH } from "../../host/run.ts";
import { DriverError } from "../driver.ts";
import { escapeForLog } from "../escape.ts";
import type { SavedDisk } from "../machine.ts";
import { Tail } from "../tail.ts";

/**
 * Runs a program that writes a tar to its standard output, and keeps it, compressed, in `file`: whole and synced, or not at all.
 * @throws `sandbox_disk_failed` with the program's own words
 */
export async function keepTar(program: string, args: readonly string[], file: string): Promise<SavedDisk> {
  const draft = `${file}.draft`;
  const child = spawn(program, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: TOOL_PATH, LC_ALL: "C" },
    cwd: "/",
  });
  const words = new Tail();
  words.follow(child.stderr);
  const ended = new Promise<string | null>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, signal) =>
      resolve(code === 0 ? null : `ended with ${signal ?? code}: ${words.text().trim()}`),
    );
  });
  const hash = createHash("sha256");
  try {
    await pipeline(
      child.stdout,
      withoutAnnouncement(),
      compressor(),
      hashing(hash),
      createWriteStream(draft, { mode: 0o600 }),
    );
    const problem = await ended;
    if (problem !== null) throw failed(`the writable layer could not be read: ${problem.slice(0, 1000)}`);
    await sync(draft);
    await rename(draft, file);
    await sync(dirname(file));
  } catch (error) {
    child.kill("SIGKILL");
    await rm(draft, { force: true });
    if (error instanceof DriverError) throw error;
    throw failed(`the disk could not be saved to ${file}: ${(error as Error).message}`, error);
  }
  return { bytes: (await stat(file)).size, sha256: hash.digest("hex"), savedAt: Date.now() };
}

/** The tar again, at `target`. A file that is cut off or damaged is refused: its frames have checksums. */
export async function unpackTar(file: string, target: string): Promise<void> {
  try {
    await pipeline(createReadStream(file), createZstdDecompress(), createWriteStream(target, { mode: 0o600 }));
  } catch (error) {
    await rm(target, { force: true });
    throw failed(
      `the saved disk ${file} cannot be used: ${escapeForLog(Buffer.from((error as Error).message))}`,
      error,
    );
  }
}

/** runsc writes a line of its own before the tar, to the same standard output. */
function withoutAnnouncement(): Transform {
  let isBegun = false;
  let start = Buffer.alloc(0);
  return new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      if (isBegun) return callback(null, chunk);
      start = Buffer.concat([start, chunk]);
      if (start.length < ANNOUNCEMENT.length) return callback();
      if (!start.subarray(0, ANNOUNCEMENT.length).equals(ANNOUNCEMENT)) isBegun = true;
      const end = start.indexOf("\n");
      if (!isBegun && end === -1) return callback();
      const rest = isBegun ? start : start.subarray(end + 1);
      isBegun = true;
      callback(null, rest);
    },
    flush(callback) {
      callback(null, isBegun ? undefined : start);
    },
  });
}

const ANNOUNCEMENT = Buffer.from("Serializing rootfs upper layer");

function compressor(): Transform {
  const { ZSTD_c_compressionLevel: level, ZSTD_c_checksumFlag: checksum } = constants;
  return createZstdCompress({ params: { [level]: 1, [checksum]: 1 } });
}

function hashing(hash: ReturnType<typeof createHash>): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      hash.update(chunk);
      callback(null, chunk);
    },
  });
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, "r");
  await handle.sync().finally(() => handle.close());
}

function failed(message: string, cause?: unknown): DriverError {
  return new DriverError(
    "sandbox_disk_failed",
    message,
    "see that the data folder has room, then try again",
    {},
    { cause },
  );
}
