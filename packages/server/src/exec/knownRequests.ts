import { SandpoolError } from "@sandpool/protocol";
import { requireSameRequest } from "../pools/idempotency.ts";

const REMEMBERED = 10_000;

/**
 * What was asked for with which Idempotency-Key, and which were ended before they began. Lost with the server: the agent then still knows
 * the exec itself.
 */
export class KnownRequests {
  readonly #hashes = new Map<string, string>();
  readonly #ended = new Set<string>();

  /** @throws `conflict` where the key came with another request, `creation_aborted` where it was ended before */
  admit(execKey: string, idempotencyKey: string, requestHash: string): void {
    const earlier = this.#hashes.get(execKey);
    if (earlier !== undefined) requireSameRequest(idempotencyKey, earlier, requestHash);
    else if (this.#ended.has(execKey)) throw endedBefore(idempotencyKey);
    this.#hashes.set(execKey, requestHash);
    dropOldest(this.#hashes);
  }

  /** Whether this server has seen a request for it. */
  has(execKey: string): boolean {
    return this.#hashes.has(execKey);
  }

  /** A request that is still on its way must not begin any more. */
  end(execKey: string): void {
    this.#ended.add(execKey);
    dropOldest(this.#ended);
  }
}

function dropOldest(known: Map<string, string> | Set<string>): void {
  if (known.size <= REMEMBERED) return;
  for (const key of known.keys()) {
    known.delete(key);
    return;
  }
}

function endedBefore(idempotencyKey: string): SandpoolError {
  return new SandpoolError(
    "creation_aborted",
    `the exec of Idempotency-Key ${JSON.stringify(idempotencyKey)} was ended before it began`,
    { hint: "use a new key to run it after all" },
  );
}
