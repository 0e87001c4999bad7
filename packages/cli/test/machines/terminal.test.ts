import { describe, expect, test } from "vitest";
import { useMachines } from "../../../sdk/test/support/machines.ts";
import { sandpool } from "../support/command.ts";
import { atTerminal, type Sat, type Step } from "../support/terminal.ts";

const bench = useMachines();
const sit = (steps: Step[], ...args: string[]): Promise<Sat> =>
  atTerminal(bench().server.variables, steps, "machine", ...args);

const PROMPT: Step = { until: "# " };
const SIGTERM = 15;
const SIGHUP = 1;

describe("a shell in a terminal", () => {
  test("is a real one: size and its changes, keys, Ctrl-C, the exit code; afterwards the terminal is as before", async () => {
    const steps: Step[] = [
      ...[{ size: [33, 101] } as const, PROMPT, { type: "tty; stty size; echo $TERM\r" }, { until: "/dev/pts/" }],
      ...[{ until: "33 101" }, { until: "xterm-256color" }, PROMPT, { size: [44, 120] } as const],
      ...[{ type: "stty size\r" }, { until: "44 120" }, PROMPT, { type: "sleep 1000\r" }, { until: "sleep 1000" }],
      ...[{ type: "\x03" }, { until: "^C" }, PROMPT, { type: "exit 5\r" }],
    ] as Step[];
    expect(await sit(steps, "shell", "box")).toMatchObject({ code: 5, restored: true });
  });

  test("sends bytes as they are: a line feed stays one, escape sequences arrive", async () => {
    const steps: Step[] = [PROMPT, { type: "stty -onlcr; printf 'a\\nb\\033[1mc'; exit\r" }];
    expect((await sit(steps, "shell", "box")).output).toContain("a\nb\x1b[1mc");
  });

  test.each([
    ["TERM", SIGTERM],
    ["HUP", SIGHUP],
  ])("ends by %s as by the end of its terminal, and gives the terminal back", async (_name, signal) => {
    const { code, restored } = await sit([PROMPT, { signal }], "shell", "box");
    expect([code, restored]).toEqual([129, true]);
  });

  test("gives the terminal back too when its machine is deleted under it", async () => {
    const { id } = await bench().newMachine({ name: "doomed" });
    const steps: Step[] = [PROMPT, { type: "touch /tmp/ready\r" }];
    const shell = sit(steps, "shell", "doomed");
    for (;;) {
      if ((await bench().machines.exec(id, { command: "test -e /tmp/ready" })).ok) break;
    }
    await bench().machines.delete(id);
    const { code, restored, output } = await shell;
    expect([code === 0, restored]).toEqual([false, true]);
    expect(output).toContain("sandpool:");
  });

  test("is refused without one, with what to do", async () => {
    const { code, stderr } = await sandpool(bench().server.variables, "machine", "shell", "box");
    expect(code).toBe(2);
    expect(stderr).toContain("sandpool machine exec box -- COMMAND");
  });
});

describe("exec at a terminal", () => {
  test("has a terminal of its own, but with --no-tty none", async () => {
    expect(await sit([], "exec", "box", "--", "test -t 0 && tty; exit 4")).toMatchObject({
      code: 4,
      output: expect.stringContaining("/dev/pts/"),
      restored: true,
    });
    const { output } = await sit([], "exec", "--no-tty", "box", "--", "test -t 1 || echo none");
    expect(output).toBe("none\r\n");
  });

  test("class 56: without a terminal of its own, control characters it prints are shown, not obeyed", async () => {
    const hostile = "printf '\\033]0;title\\007\\033[2J\\302\\233x\\342\\200\\256'; printf '\\033[31m' >&2";
    const { output } = await sit([], "exec", "--no-tty", "box", "--", hostile);
    expect(Buffer.from(output, "latin1").toString("utf8")).not.toMatch(/(?![\r\n])[\p{Cc}\p{Cf}]/u);
    expect(output).toContain("\\x1b]0;title\\x07\\x1b[2J\\x9bx\\u202e");
  });

  test("row 12: a character whose bytes come apart is shown whole", async () => {
    const command = "printf '\\303'; sleep 0.3; printf '\\244'";
    const { output } = await sit([], "exec", "--no-tty", "box", "--", command);
    expect(Buffer.from(output, "latin1").toString("utf8")).toBe("ä");
  });

  test("a joined program is let go of by Ctrl-] three times, and runs on", async () => {
    const { machines, box } = bench();
    const stream = await machines.streamExec(box, {
      command: "echo up; cat",
      tty: { rows: 24, columns: 80 },
      stdin: true,
    });
    stream.close();
    const steps: Step[] = [{ until: "up" }, { type: "typed\r" }, { until: "typed" }, { type: "\x1d\x1d\x1d" }];
    const { code, restored, output } = await sit(steps, "attach", "--tty", "box", stream.id);
    expect([code, restored]).toEqual([0, true]);
    expect(output).toContain(`sandpool machine attach box ${stream.id}`);
    expect((await machines.getExec(box, stream.id)).state).toBe("running");
    await machines.endExec(box, stream.id);
  });
});
