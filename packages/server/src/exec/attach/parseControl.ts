import { AttachControl, AttachKind, SandpoolError } from "@sandpool/protocol";
import { Compile } from "typebox/compile";
import { checked } from "../../batches/requests.ts";
import { parseJson } from "../../http/parseJson.ts";

const checkControl = Compile(AttachControl);

/** A message of the client: bytes for standard input, or a control message. */
export type ClientMessage = { kind: "stdin"; bytes: Buffer } | { kind: "control"; control: AttachControl };

/** @throws `invalid_request` */
export function parseClientMessage(data: Buffer, isBinary: boolean, maxDepth: number): ClientMessage {
  if (!isBinary) throw odd("a text message", "binary messages only");
  const [kind] = data;
  const rest = data.subarray(1);
  if (kind === AttachKind.stdin) return { kind: "stdin", bytes: rest };
  if (kind === AttachKind.control) {
    return { kind: "control", control: checked(checkControl, parseJson(rest, maxDepth)) };
  }
  throw odd(kind === undefined ? "an empty message" : `a message of kind ${kind}`, "kind 0 (stdin) or 3 (control)");
}

function odd(received: string, expected: string): SandpoolError {
  return new SandpoolError("invalid_request", `${received} came, expected ${expected}`, {
    hint: "docs/internals/machines.md gives the form of an attachment's messages",
  });
}
