import type { ServerResponse } from "node:http";
import type { ImageEvent } from "@sandpool/protocol";
import type { ImageProgress } from "@sandpool/worker";

const leastPauseMs = 200;

/** Passes progress on; figures that change with every chunk only a few times a second, and never past a client that does not read. */
export function thinOut(
  response: ServerResponse,
  write: (event: ImageEvent) => void,
): (progress: ImageProgress) => void {
  let phase = "";
  let writtenAtMs = 0;
  return (progress) => {
    const now = performance.now();
    const isNews = progress.text !== undefined || progress.phase !== phase || progress.done === progress.total;
    if (response.writableNeedDrain || (!isNews && now - writtenAtMs < leastPauseMs)) return;
    phase = progress.phase;
    writtenAtMs = now;
    write({ event: "progress", ...progress });
  };
}
