import type { MachineReason, MachineSize, MachineState } from "@sandpool/protocol";
import type { MachinePlan } from "@sandpool/worker";

/** A machine as the store keeps it and every part of the server sees it. Times are ISO 8601 in UTC. */
export interface MachineRecord {
  id: string;
  owner: string;
  name: string;
  state: MachineState;
  reason: MachineReason | null;
  /** Of the change under way, as in the journal. */
  operationId: string | null;
  plan: MachinePlan;
  size: MachineSize;
  /** As it was asked for. */
  imageName: string;
  /** What the image says of itself: the defaults of an exec. */
  imageDefaults: { user: string | null; cwd: string | null };
  /** The caller's own variables; `plan.environ` has the image's too. */
  environment: Record<string, string>;
  labels: Record<string, string>;
  createdAt: string;
  /** Seconds. */
  lifetimeSeconds: number | null;
  leaseSeconds: number | null;
  /** When the lease ends unless it is renewed. */
  leaseUntil: string | null;
  diskSavedAt: string | null;
  warnings: string[];
  /** 32 bytes in base64url: signs this machine's links. */
  secret: string;
  publicPorts: number[];
  /** Raised by every restore of an earlier state. */
  generation: number;
}
