import type { Attached } from "@sandpool/protocol";
import { ConnectionError, SandpoolError } from "../../errors.ts";
import type { Transport } from "../../http/transport.ts";
import { type ExecConnection, errorOfControl } from "./connection.ts";

export interface StreamTarget {
  transport: Transport;
  /** The machine's route. */
  path: string;
}

/** The server's first control message. */
export async function readFacts(connection: ExecConnection): Promise<Attached> {
  const message = await connection.next();
  if (message === null) {
    throw new ConnectionError("The connection ended before the server had said that the program runs.", {
      hint: "Look with listExecs whether it was started.",
    });
  }
  if (message.kind !== "control") {
    throw new SandpoolError("protocol_violation", "The server sent output before it named the exec.");
  }
  const error = errorOfControl(message.control);
  if (error !== null) throw error;
  return message.control as Attached;
}

/** The error of a stream that cannot be continued without a hole. */
export function brokenStream(id: string, cause?: unknown): ConnectionError {
  return new ConnectionError(`The connection to the exec ${id} broke; the program runs on.`, {
    cause,
    details: { exec: id },
    hint: `Join it again with attachExec("${id}"); what it wrote is kept.`,
  });
}

/** The error of waiting for a program that the stream has let go of. */
export function letGoOf(id: string): SandpoolError {
  return new SandpoolError("invalid_argument", `The stream of the exec ${id} was closed; expected an open one.`, {
    hint: `Join it again with attachExec("${id}"), or wait with getExec.`,
  });
}
