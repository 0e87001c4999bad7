from __future__ import annotations

import asyncio
import time

import pytest

import sandpool
from machines.conftest import new_name
from sandpool import AsyncSandbox, AsyncSandpool, Machine, Sandpool


def test_row_28_a_hundred_programs_run_at_once(running_server: dict[str, str], box: Machine) -> None:
    async def main() -> list[str]:
        async with AsyncSandpool(running_server["url"], running_server["key"]) as client:
            await client.machines.exec(box, ["mkfifo", "/tmp/async-go"], check=True)
            # Each waits for a writer, which comes when all run.
            running = [
                asyncio.ensure_future(client.machines.exec(box, ["sh", "-c", "cat /tmp/async-go; echo $0", str(number)]))
                for number in range(100)
            ]
            while sum(item.state == "running" for item in await client.machines.list_execs(box)) < 100:
                await asyncio.sleep(0.2)
            await client.machines.exec(box, ": > /tmp/async-go", check=True)
            return [result.check().stdout.strip() for result in await asyncio.gather(*running)]

    assert asyncio.run(main()) == [str(number) for number in range(100)]


def test_a_cancelled_program_is_ended_inside(client: Sandpool, running_server: dict[str, str], box: Machine) -> None:
    async def main() -> str:
        async with AsyncSandpool(running_server["url"], running_server["key"]) as asynchronous:
            task = asyncio.ensure_future(asynchronous.machines.exec(box, ["sleep", "98765"]))
            while not (found := [item for item in await asynchronous.machines.list_execs(box) if item.argv == ["sleep", "98765"]]):
                await asyncio.sleep(0.05)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(task, 0.05)
            return found[0].id

    exec_id = asyncio.run(main())
    assert client.machines.wait_exec(box, exec_id, timeout=20).signal == "TERM"


def test_output_is_iterated_and_a_cancelled_wait_loses_nothing(running_server: dict[str, str], box: Machine) -> None:
    async def main() -> tuple[str, str, int | None]:
        async with AsyncSandpool(running_server["url"], running_server["key"]) as client:
            async with client.machines.stream_exec(box, "echo one; read line; echo $line", stdin="open") as running:
                text = (await anext(running)).data
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(anext(running), 0.2)
                await running.write_stdin("two\n")
                async for event in running:
                    text += event.data
                result = await running.wait()
            return text, result.stdout, result.exit_code

    assert asyncio.run(main()) == ("one\ntwo\n", "one\ntwo\n", 0)


def test_a_sandbox_for_asyncio_has_the_same_calls(client: Sandpool, running_server: dict[str, str], tmp_path: object) -> None:
    async def main() -> str:
        async with AsyncSandbox(isolated=True, progress=False, url=running_server["url"], api_key=running_server["key"]) as sandbox:
            await sandbox.files.write("/root/file", "content")
            read, listed, ran = await asyncio.gather(
                sandbox.files.read_text("/root/file"), sandbox.files.list("/root"), sandbox.run("print(6 * 7)")
            )
            assert (read, "file" in [entry.name for entry in listed], ran.check().stdout) == ("content", True, "42\n")
            with pytest.raises(sandpool.ExecFailedError):
                await sandbox.exec("exit 1", check=True)
            with pytest.raises(FileNotFoundError):
                await sandbox.files.read("/nothing")
            return sandbox.id

    machine_id = asyncio.run(main())
    with pytest.raises(sandpool.MachineNotFoundError):
        client.machines.get(machine_id)


def test_a_sandbox_whose_maker_is_cancelled_does_not_stay(client: Sandpool, running_server: dict[str, str]) -> None:
    name = new_name()

    async def main() -> None:
        options = {"name": name, "isolated": True, "progress": False, "url": running_server["url"], "api_key": running_server["key"]}
        making = asyncio.ensure_future(AsyncSandbox(**options).__aenter__())  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making

    asyncio.run(main())
    end = time.monotonic() + 30
    while any(machine.name == name for machine in client.machines.list()) and time.monotonic() < end:
        time.sleep(0.1)
    assert name not in {machine.name for machine in client.machines.list()}
