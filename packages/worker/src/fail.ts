import { type ErrorCode, SandpoolError } from "@sandpool/protocol";

export interface FailureParts {
  hint?: string;
  details?: Record<string, unknown>;
  cause?: unknown;
}

/** One way to make an error of a stable code: what was received and expected in `message`, what to do in `hint`. */
export function fail(code: ErrorCode, message: string, parts: FailureParts = {}): SandpoolError {
  return new SandpoolError(code, message, parts);
}
