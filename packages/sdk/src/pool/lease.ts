import type { Transport } from "../http/transport.ts";

/** Keeps a pool alive while its object exists: asks a third of the lease time after the last request. Never keeps Node running. */
export class LeaseKeeper {
  private readonly timer: NodeJS.Timeout;

  constructor(transport: Transport, path: string, leaseSeconds: number, owner: object) {
    // Weak, so that a pool nobody holds any more is closed by its lease instead of living for ever.
    const holder = new WeakRef(owner);
    const periodMs = Math.min((leaseSeconds * 1000) / 3, 2 ** 31 - 1);
    const timer = setInterval(() => {
      if (holder.deref() === undefined) return clearInterval(timer);
      // A failure shows at the pool's next call, which reports it with its reason.
      transport.json("POST", `${path}/lease`, { body: "{}" }).catch(() => undefined);
    }, periodMs);
    timer.unref();
    this.timer = timer;
  }

  stop(): void {
    clearInterval(this.timer);
  }
}
