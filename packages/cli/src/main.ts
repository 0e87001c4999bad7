#!/usr/bin/env node
import { keepCompiledCode } from "./compileCache.ts";

keepCompiledCode();
// What was imported above the call would be compiled anew.
const { run } = await import("./run.ts");

// A reader such as `head` may close the pipe early. That ends nothing by force: a server still has pools to close.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") process.exit(1);
  });
}

process.exitCode = await run(process.argv.slice(2));
