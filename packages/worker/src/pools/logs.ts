import { fail } from "../fail.ts";
import type { PoolCore } from "./core.ts";
import type { Shard } from "./shards/shard.ts";

/** The last 64 KiB of a row's standard error, raw bytes from a sandbox. While its shard is down: what the sandbox left. */
export async function rowLogs(core: PoolCore, row: number): Promise<Buffer> {
  const { n } = core.plan.request;
  if (!Number.isInteger(row) || row < 0 || row >= n) {
    throw fail("invalid_request", `row: received ${JSON.stringify(row)}; expected an integer from 0 to ${n - 1}.`);
  }
  const shard = core.shards.find(({ range }) => row < range.first + range.count) as Shard;
  if (shard.running === null) return Buffer.from(shard.failure?.stderrTail ?? "");
  const { body } = await shard.running.agent.ask({ op: "logs", row });
  return body;
}
