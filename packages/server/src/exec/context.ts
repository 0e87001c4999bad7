import type { RequestContext } from "../http/serveRequests.ts";
import type { Identity } from "../keys/keyring.ts";
import type { FoundMachine, MachineCatalog } from "../machines/catalog.ts";
import { Attendance } from "./attendance.ts";
import { KnownRequests } from "./knownRequests.ts";
import { OutputBudget } from "./outputBudget.ts";

/** Of finished output that waits to be taken by clients. */
const HELD_OUTPUT_BYTES = 192 * 2 ** 20;

/** What the calls of exec share while the server runs. */
export class ExecShared {
  readonly budget = new OutputBudget(HELD_OUTPUT_BYTES);
  readonly attendance = new Attendance();
  readonly requests = new KnownRequests();
}

export interface ExecContext extends Pick<RequestContext, "limits" | "metrics" | "logger" | "journal"> {
  machines: MachineCatalog;
  execs: ExecShared;
}

/** One call: who asks, of which machine, for which exec. */
export interface ExecCall {
  caller: Identity;
  found: FoundMachine;
  id: string;
}

/** An exec's name among those of all machines. */
export function execKeyOf({ found, id }: Pick<ExecCall, "found" | "id">): string {
  return `${found.record.id} ${id}`;
}
