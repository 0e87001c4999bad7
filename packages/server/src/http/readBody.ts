import type { IncomingMessage } from "node:http";
import { SandpoolError } from "@sandpool/protocol";
import type { ServerLimits } from "../options.ts";

/**
 * The whole body as one buffer; without a copy where it came in one chunk.
 * Throws `body_too_large` before reading where Content-Length already tells, `request_timeout` where it stands still or drips.
 */
export function readBody(
  request: IncomingMessage,
  limitBytes: number,
  { bodyIdleMs: idleMs, requestTimeoutMs: totalMs }: Pick<ServerLimits, "bodyIdleMs" | "requestTimeoutMs">,
): Promise<Buffer> {
  const announced = Number(request.headers["content-length"] ?? Number.NaN);
  if (announced > limitBytes) return Promise.reject(tooLarge(announced, limitBytes));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const begunAtMs = performance.now();
    let received = 0;
    let timer: NodeJS.Timeout | undefined;
    const settle = (act: () => void) => {
      clearTimeout(timer);
      request.off("data", onData).off("end", onEnd).off("close", onClose).off("error", onClose);
      act();
    };
    const onData = (chunk: Buffer) => {
      received += chunk.length;
      if (received > limitBytes) return settle(() => reject(tooLarge(received, limitBytes)));
      chunks.push(chunk);
      if (received === announced) return settle(() => resolve(join(chunks, received)));
      if (performance.now() - begunAtMs > totalMs) return settle(() => reject(dripped(received, totalMs)));
      if (timer === undefined) timer = setTimeout(onIdle, idleMs);
      else timer.refresh();
    };
    const onEnd = () => settle(() => resolve(join(chunks, received)));
    const onClose = () => settle(() => reject(brokenOff(received)));
    const onIdle = () => settle(() => reject(stoodStill(received, idleMs)));
    request.on("data", onData).once("end", onEnd).once("close", onClose).once("error", onClose);
  });
}

function join(chunks: Buffer[], length: number): Buffer {
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, length);
}

export function tooLarge(received: number, limitBytes: number): SandpoolError {
  return new SandpoolError(
    "body_too_large",
    `the body has ${received} bytes or more, at most ${limitBytes} are accepted`,
    {
      hint: "send fewer rows at once, or arrays in the binary encoding",
      details: { received_bytes: received, limit_bytes: limitBytes },
    },
  );
}

function brokenOff(received: number): SandpoolError {
  return new SandpoolError("request_timeout", `the connection ended after ${received} bytes of the body`);
}

function dripped(received: number, totalMs: number): SandpoolError {
  return new SandpoolError("request_timeout", `the body is not whole after ${totalMs} ms: ${received} bytes came`, {
    hint: "send the request again",
    details: { received_bytes: received, limit_ms: totalMs },
  });
}

function stoodStill(received: number, idleMs: number): SandpoolError {
  return new SandpoolError("request_timeout", `the body stood still for ${idleMs} ms after ${received} bytes`, {
    hint: "send the request again",
    details: { received_bytes: received, idle_ms: idleMs },
  });
}
