import type { IncomingMessage, ServerResponse } from "node:http";
import { BATCH_CONTENT_TYPE } from "@sandpool/protocol";
import type { BatchEncoding, EncodedBatch, Pool } from "@sandpool/worker";
import { callerOf } from "../http/gate.ts";
import { readBody } from "../http/readBody.ts";
import type { BatchOperation, Metrics } from "../metrics.ts";
import type { ServerLimits } from "../options.ts";
import type { PoolCatalog } from "../pools/catalog.ts";
import type { SavedStateCounts } from "../pools/savedStates.ts";
import type { OperationJournal } from "../store/operations.ts";
import {
  isBinaryBody,
  mediaType,
  parseCall,
  parseFork,
  parseReset,
  parseRestore,
  parseSave,
  parseStep,
} from "./requests.ts";

const SMALL_REPLY_BYTES = 4_096;
/** The batches that make processes. */
const AUDITED: ReadonlySet<BatchOperation> = new Set(["fork", "save", "restore"]);

export interface BatchContext {
  catalog: PoolCatalog;
  limits: ServerLimits;
  metrics: Metrics;
  journal: OperationJournal;
  states: SavedStateCounts;
}

/** Handles one batch of a pool on the bare request and response; the caller answers what it throws. */
export async function handleBatch(
  context: BatchContext,
  operation: BatchOperation,
  idOrName: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const startedMs = performance.now();
  const caller = callerOf(request);
  const pool = context.catalog.find(caller.owner, idOrName);
  const encoding = request.headers.accept?.includes(BATCH_CONTENT_TYPE) ? "binary" : "json";
  const run = operation === "observations" ? observe : BODY_OPERATIONS[operation];
  const asked = () => run(context.limits, pool, request, encoding);
  const { batch, rows } = AUDITED.has(operation)
    ? await context.journal.audited(`pool.${operation}`, caller, pool.id, asked)
    : await asked();
  if (operation === "save") context.states.saved(pool, batch.summary);
  writeBatch(response, operation === "save" ? 201 : 200, batch);
  context.metrics.batch(operation, (performance.now() - startedMs) / 1000, rows, batch.summary);
}

interface Ran {
  batch: EncodedBatch;
  rows: number;
}

type Run = (limits: ServerLimits, pool: Pool, request: IncomingMessage, encoding: BatchEncoding) => Promise<Ran>;

const observe: Run = async (_limits, pool, _request, encoding) => {
  return { batch: await pool.observations(encoding), rows: pool.n };
};

const BODY_OPERATIONS: Record<Exclude<BatchOperation, "observations">, Run> = {
  step: async (limits, pool, request, encoding) => {
    const binary = isBinary(request);
    const body = await readBody(request, limits.stepBodyBytes, limits);
    const input = parseStep(body, binary, limits.jsonDepth);
    return { batch: await pool.step(input, encoding), rows: input.actions.count };
  },
  reset: async (limits, pool, request, encoding) => {
    const body = await readJsonBody(limits, request);
    const parsed = parseReset(body, limits.jsonDepth);
    return { batch: await pool.reset(parsed, body, encoding), rows: selectedRows(pool, parsed.where) };
  },
  call: async (limits, pool, request, encoding) => {
    const body = await readJsonBody(limits, request);
    const parsed = parseCall(body, limits.jsonDepth);
    return { batch: await pool.call(parsed, body, encoding), rows: selectedRows(pool, parsed.where) };
  },
  fork: async (limits, pool, request, encoding) => {
    const body = await readJsonBody(limits, request);
    const parsed = parseFork(body, limits.jsonDepth);
    return { batch: await pool.fork(parsed, body, encoding), rows: parsed.pairs.length };
  },
  save: async (limits, pool, request) => {
    const body = await readJsonBody(limits, request);
    const parsed = parseSave(body, limits.jsonDepth);
    return { batch: await pool.save(parsed, body), rows: selectedRows(pool, parsed.where) };
  },
  restore: async (limits, pool, request, encoding) => {
    const body = await readJsonBody(limits, request);
    const parsed = parseRestore(body, limits.jsonDepth);
    return { batch: await pool.restore(parsed, body, encoding), rows: parsed.pairs.length };
  },
};

function isBinary(request: IncomingMessage): boolean {
  return isBinaryBody(request.headers["content-type"], request.headers["content-encoding"]);
}

function readJsonBody(limits: ServerLimits, request: IncomingMessage): Promise<Buffer> {
  if (isBinary(request)) throw mediaType("Content-Type", request.headers["content-type"]);
  return readBody(request, limits.batchBodyBytes, limits);
}

function selectedRows(pool: Pool, where: readonly boolean[] | readonly number[] | null | undefined): number {
  if (where === null || where === undefined) return pool.n;
  return typeof where[0] === "boolean" ? where.filter(Boolean).length : where.length;
}

/**
 * Headers and body leave in one system call. A small reply goes as one latin1 text, byte for byte the same: Node joins
 * it with the headers into a plain write, which measured 5 us less than the vector of buffers a corked write makes.
 */
function writeBatch(
  response: ServerResponse,
  status: number,
  { chunks, contentType, length, release }: EncodedBatch,
): void {
  if (response.destroyed) {
    release?.();
    return;
  }
  // After the last byte was written, or the connection broke: until then Node writes from the chunks' own memory.
  if (release !== undefined) response.once("close", release);
  response.writeHead(status, { "Content-Type": contentType, "Content-Length": length });
  if (length <= SMALL_REPLY_BYTES) {
    let text = "";
    for (const chunk of chunks) text += chunk.toString("latin1");
    response.end(text, "latin1");
    return;
  }
  response.cork();
  for (const chunk of chunks) response.write(chunk);
  response.end();
  response.uncork();
}
