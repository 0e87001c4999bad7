import type { Readable } from "node:stream";
import type { Outlet } from "./outlet.ts";

/**
 * Sends a source's bytes, then its end. Returns early when the receiver takes no more; the source is then the caller's, not destroyed and
 * not read further.
 * @throws what the source failed with, or the signal's reason: the receiver was told that the stream is no whole
 */
export async function sendSource(source: Readable, outlet: Outlet, signal?: AbortSignal): Promise<void> {
  let failure: { error: unknown } | null = null;
  const fail = (error: unknown): void => {
    if (!outlet.isOpen) return;
    failure = { error };
    outlet.fail(error instanceof Error ? error.message : String(error));
  };
  const onClose = (): void => {
    if (!source.readableEnded && source.readableLength === 0) fail(source.errored ?? closedEarly());
  };
  const onAbort = (): void => fail(signal?.reason);
  // It stays: a source that nobody reads any more may still fail.
  source.on("error", fail);
  source.on("close", onClose);
  signal?.addEventListener("abort", onAbort);
  try {
    if (signal?.aborted) onAbort();
    else if (source.destroyed) onClose();
    await send(source, outlet);
  } finally {
    source.off("close", onClose);
    signal?.removeEventListener("abort", onAbort);
  }
  if (failure !== null) throw (failure as { error: unknown }).error;
}

async function send(source: Readable, outlet: Outlet): Promise<void> {
  while (outlet.isOpen) {
    const chunk = source.read() as Buffer | string | null;
    if (chunk !== null) await outlet.write(Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk));
    else if (source.readableEnded) outlet.end();
    else await change(source, outlet);
  }
}

/** Until the source has something or has ended, or nobody wants it any more. */
async function change(source: Readable, outlet: Outlet): Promise<void> {
  let forget = (): void => undefined;
  await new Promise<void>((resolve) => {
    const wake = (): void => resolve();
    const unlisten = outlet.whenClosed(wake);
    for (const name of NEWS) source.on(name, wake);
    forget = () => {
      unlisten();
      for (const name of NEWS) source.off(name, wake);
    };
  });
  forget();
}

const NEWS = ["readable", "end"] as const;

function closedEarly(): Error {
  return new Error("the source was closed before its end");
}
