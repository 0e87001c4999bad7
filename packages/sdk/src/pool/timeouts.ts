import type { PoolReply } from "@sandpool/protocol";

// A loaded host, a replacement on its way, a slow link.
const MARGIN_SECONDS = 60;

/** How long the server may be silent during a batch, in milliseconds: more than the batch's own deadlines can add up to. */
export class Timeouts {
  private readonly limits: Readonly<Record<string, unknown>>;
  private readonly waves: number;

  /** `inFlight` rows run at once; a pool's description does not say how many. */
  constructor({ limits, n }: Pick<PoolReply, "limits" | "n">, inFlight: number | null = null) {
    this.limits = limits;
    this.waves = Math.ceil(n / (inFlight ?? n));
  }

  /** The longest step; with autoreset a reset follows it. */
  get stepMs(): number {
    return this.milliseconds(this.figure("step_timeout", 30) + this.figure("reset_timeout", 60));
  }

  /** The longest reset: a replacement's start, and one repeat. */
  get resetMs(): number {
    return this.milliseconds(this.figure("start_timeout", 120) + 2 * this.figure("reset_timeout", 60));
  }

  /** The longest fork, save or restore: a replacement's start and a copy's. */
  get branchMs(): number {
    return this.milliseconds(2 * this.figure("start_timeout", 120) + this.figure("reset_timeout", 60));
  }

  /** The longest call. */
  callMs(timeoutSeconds: number | null): number {
    return this.milliseconds(timeoutSeconds ?? this.figure("call_timeout", 30));
  }

  private milliseconds(waveSeconds: number): number {
    return (this.waves * waveSeconds + MARGIN_SECONDS) * 1000;
  }

  private figure(name: string, missing: number): number {
    const value = this.limits[name];
    return typeof value === "number" && value > 0 ? value : missing;
  }
}
