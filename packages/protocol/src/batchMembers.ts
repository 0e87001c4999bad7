import { Type } from "typebox";

/** Batch numbers start at 1. */
export const Sequence = Type.Integer({ minimum: 1, maximum: 0xffffffff });

/** A text that a client chose for one pool object: two clients' requests are never taken for one that was repeated. */
export const Client = Type.String({ maxLength: 64 });

export const Index = Type.Integer({ minimum: 0, maximum: 0xffffffff });

export const Seed = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
