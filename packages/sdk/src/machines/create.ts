import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Machine, MachineBatch, MachineEvent } from "@sandpool/protocol";
import { ConnectionError, errorFromWire, SandpoolError } from "../errors.ts";
import { readNdjson } from "../http/ndjson.ts";
import type { Reply, Transport } from "../http/transport.ts";
import { requestJson } from "../values/json.ts";
import { type MachineOptions, toMachineRequest } from "./options.ts";

// A full queue is a matter of other creations' seconds.
const QUEUE_PATIENCE_MS = 120_000;
const SHORTEST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
const BROKEN_RETRIES = 5;

/** The stream of a creation ended without its last line: the same request joins it again. */
class UnfinishedError extends ConnectionError {}

/** The fate of one machine of several. */
export type MachineFate = { machine: Machine } | { error: SandpoolError };

/** Makes a machine and resolves once it runs. The key makes a repetition after a broken connection join the first request. */
export async function createMachine(transport: Transport, options: MachineOptions): Promise<Machine> {
  const last = await create(transport, options, 1);
  if (last.event === "machine") return last.machine;
  throw unexpected(last.event);
}

/** Makes several, named NAME-1, NAME-2 and so on; resolves with the fate of each, in order. */
export async function createMachines(
  transport: Transport,
  count: number,
  options: MachineOptions,
): Promise<MachineFate[]> {
  const last = await create(transport, options, count);
  if (last.event === "machine") return [{ machine: last.machine }];
  if (last.event !== "machines") throw unexpected(last.event);
  return last.machines.map((fate: MachineBatch["machines"][number]) =>
    "machine" in fate ? fate : { error: errorFromWire(422, fate) },
  );
}

async function create(transport: Transport, options: MachineOptions, count: number): Promise<MachineEvent> {
  const body = requestJson({ ...toMachineRequest(options), ...(count !== 1 && { count }) });
  const request = {
    body,
    accept: "application/x-ndjson",
    headers: { "idempotency-key": randomUUID() },
    signal: options.signal,
    retries: BROKEN_RETRIES,
  };
  const until = performance.now() + QUEUE_PATIENCE_MS;
  for (let ended = 0; ; ) {
    try {
      return await transport.send("POST", "/v1/machines", request, (reply) => follow(reply, options));
    } catch (error) {
      const waitSeconds = error instanceof SandpoolError ? error.retryAfterSeconds : undefined;
      if (error instanceof UnfinishedError && ended < BROKEN_RETRIES) ended += 1;
      else if (waitSeconds === undefined || performance.now() > until) throw error;
      const pauseMs = Math.min(Math.max((waitSeconds ?? 0) * 1000, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS);
      await sleep(pauseMs, undefined, options.signal && { signal: options.signal });
    }
  }
}

async function follow(reply: Reply, { onProgress }: MachineOptions): Promise<MachineEvent> {
  for await (const line of readNdjson(reply.body)) {
    const event = line as MachineEvent;
    if (event.event === "progress") onProgress?.({ phase: event.phase, done: event.done, total: event.total });
    else if (event.event === "error") throw errorFromWire(event.status, { error: event.error });
    else if (event.event === "machine" || event.event === "machines") return event;
  }
  throw new UnfinishedError("The creation's stream ended before the machine ran.", {
    hint: "Look whether it is there with machines.list, and at the server's log.",
  });
}

function unexpected(event: string): SandpoolError {
  return new SandpoolError("protocol_violation", `The creation ended with "${event}"; expected one machine for each.`);
}
