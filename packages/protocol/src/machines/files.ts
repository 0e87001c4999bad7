import { type Static, Type } from "typebox";
import { InnerPath, InnerUser } from "./rules.ts";

const user = Type.Optional(InnerUser);
const mode = Type.Optional(Type.Integer({ minimum: 0, maximum: 0o7777, description: "decimal; 420 is 0644" }));

export const FileEntry = Type.Object({
  name: Type.String(),
  path: Type.String(),
  path_base64: Type.Optional(Type.String({ description: "where the path is no UTF-8" })),
  kind: Type.Union([Type.Literal("file"), Type.Literal("folder"), Type.Literal("link"), Type.Literal("other")]),
  size: Type.Integer(),
  mode: Type.Integer(),
  uid: Type.Integer(),
  gid: Type.Integer(),
  mtime_ms: Type.Number(),
  target: Type.Union([Type.String(), Type.Null()], { description: "of a link" }),
});
export type FileEntry = Static<typeof FileEntry>;

export const FileReply = Type.Object({ entry: FileEntry });
export type FileReply = Static<typeof FileReply>;

export const FileList = Type.Object({ entries: Type.Array(FileEntry), more: Type.Boolean() });
export type FileList = Static<typeof FileList>;

/** What a `PUT …/files` answers once the content is safely there. */
export const WrittenFile = Type.Object({ bytes: Type.Integer(), sha256: Type.String() });
export type WrittenFile = Static<typeof WrittenFile>;

export const WrittenTree = Type.Object({ entries: Type.Integer(), bytes: Type.Integer() });
export type WrittenTree = Static<typeof WrittenTree>;

export const FileQuery = Type.Object({ path: InnerPath, user }, { additionalProperties: false });
/** `mode` in octal digits, such as 0644. */
export const WriteFileQuery = Type.Object(
  {
    path: InnerPath,
    user,
    mode: Type.Optional(Type.String({ pattern: "^0?[0-7]{1,4}$", description: "octal digits, such as 0644" })),
    parents: Type.Optional(Type.Boolean({ description: "make missing folders; default true" })),
  },
  { additionalProperties: false },
);
export const StatFileQuery = Type.Object(
  { path: InnerPath, user, follow: Type.Optional(Type.Boolean()) },
  { additionalProperties: false },
);
export const ListFilesQuery = Type.Object(
  {
    path: InnerPath,
    user,
    depth: Type.Optional(Type.Integer({ minimum: 1, maximum: 64 })),
    after: Type.Optional(Type.String({ maxLength: 4096, description: "the last entry's path" })),
  },
  { additionalProperties: false },
);
export const WatchFilesQuery = Type.Object(
  { path: InnerPath, user, recursive: Type.Optional(Type.Boolean()) },
  { additionalProperties: false },
);

export const MakeFolderRequest = Type.Object(
  { path: InnerPath, parents: Type.Optional(Type.Boolean()), mode, user },
  { additionalProperties: false },
);
export type MakeFolderRequest = Static<typeof MakeFolderRequest>;

export const MoveFileRequest = Type.Object(
  { from: InnerPath, to: InnerPath, replace: Type.Optional(Type.Boolean()), user },
  { additionalProperties: false },
);
export type MoveFileRequest = Static<typeof MoveFileRequest>;

export const RemoveFileRequest = Type.Object(
  { path: InnerPath, recursive: Type.Optional(Type.Boolean()), user },
  { additionalProperties: false },
);
export type RemoveFileRequest = Static<typeof RemoveFileRequest>;

/** The reply of make, move and remove. */
export const Done = Type.Object({});
export type Done = Static<typeof Done>;

/** A line of `GET …/files/watch`; a heartbeat while nothing happens. */
export type FileChange =
  | { kind: "created" | "modified" | "removed"; path: string }
  | { kind: "moved"; path: string; to: string }
  | { kind: "rescan" }
  | { event: "heartbeat" };
