import type { IncomingMessage } from "node:http";
import { isAttachUpgrade } from "../exec/attach/matchAttach.ts";
import { asksUpgrade, isForPort } from "../ports/address.ts";
import { isStreamUpgrade } from "../stream/matchStream.ts";

/** Whether a request is taken off HTTP; any other upgrade is answered as if it had not asked. */
export function isUpgrade(request: IncomingMessage): boolean {
  return isForPort(request) ? asksUpgrade(request) : isStreamUpgrade(request) || isAttachUpgrade(request);
}
