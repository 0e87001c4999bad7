import { type AgentReply, agentError, askTimeoutMs, tooLate } from "../../agent/channel.ts";
import type { BatchOperation, Column } from "../batches/columns.ts";
import { readShardResult, type ShardResult } from "../batches/result.ts";
import { rowsOf, type ShardSelection } from "../rows/select.ts";
import { failedResult, type ShardFailure, unknownFailure } from "./failure.ts";
import type { Shard } from "./shard.ts";
import type { RunningShard } from "./start.ts";

/** One shard's part of a batch. */
export interface Delivery {
  operation: BatchOperation;
  columns: readonly Column[];
  part: ShardSelection;
  /** The agent's head for its next number; `rows` is JSON text. */
  makeHead: (sequence: number, part: ShardSelection, rows: string) => string;
  body: Buffer | null;
  limitMs: number;
  /** How many episodes each row may begin in it. */
  episodes: number;
}

export type OnResult = (result: ShardResult | Error) => void;

/** Sends a part to the shard's agent. If the sandbox dies with it, its rows fail at once with the reason. `onResult` is called once. */
export function deliver(shard: Shard, delivery: Delivery, onResult: OnResult): void {
  const { running } = shard;
  if (running === null) {
    onResult(failRows(shard, delivery, shard.failure ?? unknownFailure));
    return;
  }
  const { part } = delivery;
  const rows = part.rows === null ? "null" : `[${part.rows.join(",")}]`;
  running.lastSequence += 1;
  shard.episodes += delivery.episodes;
  shard.hopelessAtMs = performance.now() + delivery.limitMs;
  running.agent.send(delivery.makeHead(running.lastSequence, part, rows), delivery.body, (reply) => {
    shard.hopelessAtMs = 0;
    if (reply === null) failWithSandbox(shard, running, delivery, onResult);
    else onResult(readReply(reply, delivery));
  });
}

/** As `deliver`, for a request beside the batches: it has no number and its own short limit. */
export function deliverBeside(shard: Shard, delivery: Delivery, onResult: OnResult): void {
  const { running } = shard;
  if (running === null) {
    onResult(failRows(shard, delivery, shard.failure ?? unknownFailure));
    return;
  }
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    onResult(tooLate(delivery.operation, askTimeoutMs));
  }, askTimeoutMs);
  running.agent.send(delivery.makeHead(0, delivery.part, "null"), delivery.body, (reply) => {
    clearTimeout(timer);
    if (isLate) return;
    if (reply === null) failWithSandbox(shard, running, delivery, onResult);
    else onResult(readReply(reply, delivery));
  });
}

/** The rows of a part, failed with their sandbox; `repeated` for those that were told so before. */
export function failRows(shard: Shard, delivery: Delivery, failure: ShardFailure): ShardResult {
  const rows = rowsOf(delivery.part, shard.range);
  const result = failedResult(delivery.columns, rows, delivery.operation, failure, (row) => !shard.untold.has(row));
  if (delivery.operation !== "observe") for (const row of rows) shard.untold.delete(row);
  return result;
}

function readReply(reply: AgentReply, { columns, part }: Delivery): ShardResult | Error {
  if (reply.head.ok !== true) return agentError(reply);
  try {
    return readShardResult(reply, columns, part.count);
  } catch (error) {
    return error as Error;
  }
}

function failWithSandbox(shard: Shard, running: RunningShard, delivery: Delivery, onResult: OnResult): void {
  shard.death(running).then(
    (failure) => onResult(failRows(shard, delivery, failure)),
    (error: unknown) => onResult(error as Error),
  );
}
