import { type Static, Type } from "typebox";
import { Environment, InnerUser, Seconds, TextOrBytes } from "./rules.ts";

const text = { maxLength: 1_048_576, pattern: "^[^\\u0000]*$" };

export const Terminal = Type.Object(
  {
    rows: Type.Integer({ minimum: 1, maximum: 65_535 }),
    columns: Type.Integer({ minimum: 1, maximum: 65_535 }),
  },
  { additionalProperties: false },
);
export type Terminal = Static<typeof Terminal>;

/** `POST …/exec`, and `start` of the WebSocket. Exactly one of `command` and `argv`. */
export const ExecRequest = Type.Object(
  {
    command: Type.Optional(Type.String({ minLength: 1, ...text, description: "for the machine's shell" })),
    argv: Type.Optional(Type.Array(Type.String(text), { minItems: 1, maxItems: 65_536 })),
    cwd: Type.Optional(
      Type.Union([Type.String({ minLength: 1, maxLength: 4096, pattern: "^[^\\u0000]+$" }), Type.Null()], {
        description: "absolute, or relative to the user's home; null: the image's own, else the home",
      }),
    ),
    environment: Type.Optional(Environment),
    user: Type.Optional(Type.Union([InnerUser, Type.Null()], { description: "null: the image's own, else root" })),
    stdin: Type.Optional(
      Type.Union([TextOrBytes, Type.Null()], { description: "up to 16 MiB; more goes through the WebSocket" }),
    ),
    timeout: Type.Optional(Type.Union([Seconds("its whole tree is ended then"), Type.Null()])),
    tty: Type.Optional(Type.Union([Terminal, Type.Null()])),
    detach: Type.Optional(Type.Boolean({ description: "answer once it has started" })),
    stream: Type.Optional(Type.Boolean({ description: "answer with frames as it writes" })),
  },
  { additionalProperties: false },
);
export type ExecRequest = Static<typeof ExecRequest>;

export const ExecStarted = Type.Object({ id: Type.String(), pid: Type.Integer() });
export type ExecStarted = Static<typeof ExecStarted>;

const NullableInteger = Type.Union([Type.Integer(), Type.Null()]);
const NullableText = Type.Union([Type.String(), Type.Null()]);

export const ExecOutcome = Type.Object({
  id: Type.String(),
  state: Type.String({ description: "exited; running where a wait was over first; detached; lost" }),
  exit_code: Type.Union([Type.Integer(), Type.Null()], { description: "the program's, or 128 and the signal" }),
  signal: Type.Union([Type.String(), Type.Null()], { description: "without SIG" }),
  timed_out: Type.Boolean(),
  oom_killed: Type.Boolean(),
  truncated: Type.Boolean({ description: "the middle of an output was not kept" }),
  duration_ms: Type.Number(),
  stdout: Type.Optional(TextOrBytes),
  stderr: Type.Optional(TextOrBytes),
  stdout_bytes: Type.Integer({ description: "all that was written" }),
  stderr_bytes: Type.Integer(),
  stdout_dropped: Type.Integer(),
  stderr_dropped: Type.Integer(),
  stdout_head: Type.Integer({ description: "bytes before the dropped ones" }),
  stderr_head: Type.Integer(),
  left: Type.Array(Type.Object({ pid: Type.Integer(), command: Type.String() }), {
    description: "programs it left running",
  }),
});
export type ExecOutcome = Static<typeof ExecOutcome>;

/** An exec that runs, as `GET …/exec/{exec}` gives it. */
export const RunningExec = Type.Object({
  ...Type.Partial(ExecOutcome).properties,
  id: Type.String(),
  state: Type.String(),
});
export type RunningExec = Static<typeof RunningExec>;

export const ListedExec = Type.Object({
  id: Type.String(),
  state: Type.Union([Type.Literal("running"), Type.Literal("exited"), Type.Literal("detached"), Type.Literal("lost")]),
  argv: Type.Array(Type.String()),
  pid: NullableInteger,
  started_at: Type.String({ description: "ISO 8601, UTC" }),
  exit_code: NullableInteger,
  signal: NullableText,
});
export type ListedExec = Static<typeof ListedExec>;

export const ExecList = Type.Object({ execs: Type.Array(ListedExec) });
export type ExecList = Static<typeof ExecList>;

export const ExecQuery = Type.Object(
  {
    wait: Type.Optional(Type.Number({ minimum: 0, maximum: 60, description: "seconds" })),
    output: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
);

export const ExecParams = Type.Object({
  machine: Type.String({ minLength: 1, maxLength: 64 }),
  exec: Type.String({ minLength: 1, maxLength: 64 }),
});

export const SignalName = Type.String({ pattern: "^[A-Z][A-Z0-9+-]{1,15}$", description: "without SIG" });

export const SignalExecRequest = Type.Object(
  { signal: Type.Optional(SignalName), tree: Type.Optional(Type.Boolean({ description: "everything below it too" })) },
  { additionalProperties: false },
);
export type SignalExecRequest = Static<typeof SignalExecRequest>;

export const SignalledExec = Type.Object({ signalled: Type.Integer() });
export type SignalledExec = Static<typeof SignalledExec>;

/** `DELETE …/exec/{exec}`: nothing of its tree is left. */
export const DeletedExec = Type.Object({ id: Type.String(), deleted: Type.Literal(true) });
export type DeletedExec = Static<typeof DeletedExec>;

/** The media type of a streamed exec: `u8 kind | u32 length LE | bytes`. */
export const EXEC_STREAM_TYPE = "application/vnd.sandpool.exec";
export const ExecFrameKind = { stdout: 1, stderr: 2, json: 3 } as const;

/** The first byte of a message of the WebSocket. */
export const AttachKind = { stdin: 0, stdout: 1, stderr: 2, control: 3 } as const;

/** A control message of the client; one member each. `start` comes first, and only where no exec is named. */
export const AttachControl = Type.Union([
  Type.Object({ start: ExecRequest }, { additionalProperties: false }),
  Type.Object({ resize: Terminal }, { additionalProperties: false }),
  Type.Object({ end_stdin: Type.Literal(true) }, { additionalProperties: false }),
  Type.Object({ signal: SignalName, tree: Type.Optional(Type.Boolean()) }, { additionalProperties: false }),
]);
export type AttachControl = Static<typeof AttachControl>;

/** The server's first control message. */
export const Attached = Type.Object({
  id: Type.String(),
  pid: NullableInteger,
  state: Type.String(),
  dropped: Type.Object({ stdout: Type.Integer(), stderr: Type.Integer() }),
});
export type Attached = Static<typeof Attached>;

export const AttachQuery = Type.Object(
  { from: Type.Optional(Type.Union([Type.Literal("start"), Type.Literal("now")])) },
  { additionalProperties: false },
);
