import {
  decodeActions,
  decodeBatch,
  SandpoolError,
  StreamReset,
  type StreamReset as StreamResetType,
  StreamStep,
  StreamStepHead,
} from "@sandpool/protocol";
import type { StreamRequest } from "@sandpool/worker";
import { Compile } from "typebox/compile";
import { checked } from "../batches/requests.ts";
import { parseJson } from "../http/parseJson.ts";

const checkStep = Compile(StreamStep);
const checkStepHead = Compile(StreamStepHead);
const checkReset = Compile(StreamReset);

/** A client's message: what it asks for, or why only its number can be taken. */
export type ParsedMessage = { request: StreamRequest } | { number: number; received: number; error: SandpoolError };

/** @throws `invalid_request` where not even the message's number can be read */
export function parseMessage(body: Buffer, isBinary: boolean, takesBinary: boolean, maxDepth: number): ParsedMessage {
  const { value, readRequest } = isBinary ? openBinary(body) : openText(body, maxDepth);
  const number = readNumber(value);
  try {
    if (isBinary && !takesBinary) throw noBinary();
    return { request: readRequest() };
  } catch (error) {
    if (!(error instanceof SandpoolError)) throw error;
    return { number, received: readReceived(value), error };
  }
}

interface Opened {
  /** What the message's members are read from. */
  value: unknown;
  readRequest(): StreamRequest;
}

function openText(body: Buffer, maxDepth: number): Opened {
  const value = parseJson(body, maxDepth);
  const readRequest = (): StreamRequest => {
    if (opOf(value) === "reset") return resetRequest(checked(checkReset, value), body);
    const { number, received = 0, where, actions } = checked(checkStep, value);
    return { number, received, where, rawBody: body, op: "step", actions: { kind: "json", count: actions.length } };
  };
  return { value, readRequest };
}

function openBinary(body: Buffer): Opened {
  const { map, fields } = decodeBatch(body);
  const readRequest = (): StreamRequest => {
    if (opOf(map) === "reset") {
      const reset = checked(checkReset, map);
      if (fields.length > 0 || (reset.options ?? null) !== null) throw noOptions();
      return resetRequest({ ...reset, options: undefined }, body);
    }
    const { number, received = 0, where } = checked(checkStepHead, map);
    return { number, received, where, rawBody: body, op: "step", actions: { kind: "array", ...decodeActions(fields) } };
  };
  return { value: map, readRequest };
}

function resetRequest(reset: StreamResetType, rawBody: Buffer): StreamRequest {
  const { number, received = 0, where, seed = null, options, hard = false } = reset;
  return { number, received, where, rawBody, op: "reset", seed, options, hard };
}

function readNumber(value: unknown): number {
  const number = memberOf(value, "number");
  if (Number.isSafeInteger(number) && (number as number) > 0) return number as number;
  throw new SandpoolError("invalid_request", `number is ${show(number)}, expected a whole number from 1 on`, {
    hint: "docs/internals/stream.md gives the form of a message",
  });
}

function readReceived(value: unknown): number {
  const received = memberOf(value, "received");
  return Number.isSafeInteger(received) && (received as number) > 0 ? (received as number) : 0;
}

function opOf(value: unknown): "step" | "reset" {
  const op = memberOf(value, "op");
  if (op === "step" || op === "reset") return op;
  throw new SandpoolError("invalid_request", `op is ${show(op)}, expected "step" or "reset"`);
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Record<string, unknown>)[name];
}

function show(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 80) ?? "missing";
}

function noBinary(): SandpoolError {
  return new SandpoolError("unsupported_media_type", "a binary message came in a stream of text", {
    hint: "open the stream with the subprotocol sandpool.batch",
  });
}

function noOptions(): SandpoolError {
  return new SandpoolError("invalid_request", "a binary reset has options or a field, expected neither", {
    hint: "send a reset with options as a text message",
  });
}
