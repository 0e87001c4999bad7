import { isUtf8 } from "node:buffer";
import { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { ExecOutcome as WireOutcome } from "@sandpool/protocol";

/** A multiple of three, so that pieces of base64 join without padding between them. */
const PIECE_BYTES = 48 * 1024;

/**
 * An outcome with its output as JSON, made piece by piece: texts are escaped and bytes encoded as the client takes them, so that a large
 * output is held once and never as text beside it.
 */
export function outcomeStream(outcome: WireOutcome, output: { stdout: Buffer; stderr: Buffer }): Readable {
  return Readable.from(pieces(outcome, output), { objectMode: false, highWaterMark: PIECE_BYTES });
}

function* pieces(outcome: WireOutcome, { stdout, stderr }: { stdout: Buffer; stderr: Buffer }): Generator<string> {
  yield `${JSON.stringify(outcome).slice(0, -1)},"stdout":`;
  yield* value(stdout);
  yield ',"stderr":';
  yield* value(stderr);
  yield "}";
}

function* value(bytes: Buffer): Generator<string> {
  if (!isUtf8(bytes)) {
    yield '{"base64":"';
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.toString("base64", at, at + PIECE_BYTES);
    yield '"}';
    return;
  }
  const decoder = new StringDecoder("utf8");
  yield '"';
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    yield JSON.stringify(decoder.write(bytes.subarray(at, at + PIECE_BYTES))).slice(1, -1);
  }
  yield '"';
}
