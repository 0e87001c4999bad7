import type { StreamFailed, StreamOpened, StreamRefused } from "@sandpool/protocol";
import type { StreamMessage } from "./contract.ts";

/** An event as text, which it is in both subprotocols. */
export function encodeEvent(event: StreamOpened | StreamRefused | StreamFailed): StreamMessage {
  const bytes = Buffer.from(JSON.stringify(event));
  return { isText: true, chunks: [bytes], length: bytes.length };
}
