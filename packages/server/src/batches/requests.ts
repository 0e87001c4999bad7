import {
  CallRequest,
  decodeStepBatch,
  ForkRequest,
  ResetRequest,
  RestoreRequest,
  SandpoolError,
  SaveRequest,
  StepRequest,
  type StepRequest as StepRequestType,
} from "@sandpool/protocol";
import type { StepInput } from "@sandpool/worker";
import type { Static, TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { explainInvalid } from "../http/explainInvalid.ts";
import { parseJson } from "../http/parseJson.ts";

const checkStep = Compile(StepRequest);
const checkReset = Compile(ResetRequest);
const checkCall = Compile(CallRequest);
const checkFork = Compile(ForkRequest);
const checkSave = Compile(SaveRequest);
const checkRestore = Compile(RestoreRequest);

/** A step from either encoding; `data` is a view of the body. */
export function parseStep(body: Buffer, binary: boolean, maxDepth: number): StepInput {
  if (binary) {
    const { seq, where, actions } = decodeStepBatch(body);
    return { seq, where, rawBody: body, actions: { kind: "array", ...actions } };
  }
  const request: StepRequestType = checked(checkStep, parseJson(body, maxDepth));
  const { seq, where, actions } = request;
  return { seq, where: where ?? null, rawBody: body, actions: { kind: "json", count: actions.length } };
}

export function parseReset(body: Buffer, maxDepth: number): ResetRequest {
  return checked(checkReset, parseJson(body, maxDepth));
}

export function parseCall(body: Buffer, maxDepth: number): CallRequest {
  return checked(checkCall, parseJson(body, maxDepth));
}

export function parseFork(body: Buffer, maxDepth: number): ForkRequest {
  return checked(checkFork, parseJson(body, maxDepth));
}

export function parseSave(body: Buffer, maxDepth: number): SaveRequest {
  return checked(checkSave, parseJson(body, maxDepth));
}

export function parseRestore(body: Buffer, maxDepth: number): RestoreRequest {
  return checked(checkRestore, parseJson(body, maxDepth));
}

/** A compiled schema. */
export interface Checker<Schema extends TSchema> {
  Check(value: unknown): boolean;
  Errors(value: unknown): readonly { keyword: string; instancePath: string; message: string; params: object }[];
  Type(): Schema;
}

/** The value in the schema's type. @throws `invalid_request` that names the first fault */
export function checked<Schema extends TSchema>(checker: Checker<Schema>, value: unknown): Static<Schema> {
  if (checker.Check(value)) return value as Static<Schema>;
  throw explainInvalid(checker.Errors(value), value);
}

/** Whether a body is binary. Throws `unsupported_media_type` for anything but the two exact types. */
export function isBinaryBody(contentType: string | undefined, contentEncoding: string | undefined): boolean {
  if (contentEncoding !== undefined && contentEncoding !== "identity")
    throw mediaType("Content-Encoding", contentEncoding);
  if (contentType === "application/json") return false;
  if (contentType === "application/vnd.sandpool.batch") return true;
  if (contentType !== undefined && isJsonType(contentType)) return false;
  throw mediaType("Content-Type", contentType);
}

/** `application/json`, with `charset=utf-8` at most: nothing lenient, because two parsers could disagree about it. */
export function isJsonType(contentType: string): boolean {
  return /^application\/json(; ?charset="?utf-8"?)?$/i.test(contentType);
}

export function mediaType(header: string, received: string | undefined): SandpoolError {
  return new SandpoolError(
    "unsupported_media_type",
    `${header} is ${JSON.stringify(received ?? null)}, which this route does not take`,
    {
      hint: "send application/json, or application/vnd.sandpool.batch to a pool's step, uncompressed",
      details: { received: received ?? null },
    },
  );
}
