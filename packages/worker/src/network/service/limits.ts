/** Of one machine, so that none can take the service from the others. */
export const limits = {
  connections: 256,
  nameConnections: 16,
  namesAtOnce: 64,
  namesPerSecond: 200,
  namesBurst: 400,
  headBytes: 16 * 1024,
  /** Of a ClientHello, with its records' heads: post-quantum keys and session tickets take some. */
  helloBytes: 64 * 1024,
  /** Until a connection has said where it wants to go. */
  helloMs: 10_000,
  dialMs: 15_000,
  idleMs: 300_000,
  nameIdleMs: 10_000,
} as const;

/** Counts what each machine has open. */
export class OpenCounts {
  readonly #limit: number;
  readonly #counts = new Map<string, number>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** False, and nothing counted, where the machine has as many as it may. */
  take(client: string): boolean {
    const count = this.#counts.get(client) ?? 0;
    if (count >= this.#limit) return false;
    this.#counts.set(client, count + 1);
    return true;
  }

  give(client: string): void {
    const count = (this.#counts.get(client) ?? 0) - 1;
    if (count > 0) this.#counts.set(client, count);
    else this.#counts.delete(client);
  }
}

/** A token bucket for each machine. */
export class Rates {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #buckets = new Map<string, { tokens: number; at: number }>();

  constructor(perSecond: number, burst: number) {
    this.#perSecond = perSecond;
    this.#burst = burst;
  }

  /** @param nowMs of a clock that only goes forward */
  take(client: string, nowMs: number): boolean {
    const bucket = this.#buckets.get(client) ?? { tokens: this.#burst, at: nowMs };
    bucket.tokens = Math.min(this.#burst, bucket.tokens + ((nowMs - bucket.at) / 1000) * this.#perSecond);
    bucket.at = nowMs;
    this.#buckets.set(client, bucket);
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

  forget(client: string): void {
    this.#buckets.delete(client);
  }
}
