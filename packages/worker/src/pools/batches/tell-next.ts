import { SandpoolError } from "@sandpool/protocol";

/**
 * The failure of a batch that had its turn, with the next batch's number in its details (`next_seq`) where its client could not know it: for that
 * of a fault, or of a refusal that has used the number up all the same. Contract: docs/internals/http-api.md.
 */
export function tellNext(error: unknown, seq: number, nextSeq: number): unknown {
  if (!(error instanceof SandpoolError) || (error.status < 500 && nextSeq === seq)) return error;
  const { code, message, hint, details } = error;
  return new SandpoolError(code, message, { hint, details: { ...details, next_seq: nextSeq }, cause: error });
}
