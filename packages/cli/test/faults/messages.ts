/** What strikes: the server is killed, or asked to end; a shim or the runtime's process of a machine is killed. */
export type Fault = "kill" | "terminate" | "shim" | "runtime";

/** What a server was about to do, and how often it had done the same since it was armed. */
export interface Step {
  label: string;
  earlier: number;
}

export interface Armed {
  fault: Fault;
  /** The fault strikes before this step; null: never, the steps are only noted. */
  at: Step | null;
  /** The folder of the machines' folders. */
  machines: string;
  /** Ids of machines that are left alone. */
  spared: string[];
}

export interface Noted {
  steps: Step[];
  isStruck: boolean;
}

export type ToServer = { arm: Armed } | { disarm: true } | { measure: true };

export type FromServer = { armed: true } | Noted | { bytes: number };
