"""The channel belongs to the protocol alone, whatever the environment's code prints, starts or closes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

NOISY = """
    import os, subprocess, sys
    from sandpool.env import serve
    print("at import")
    os.write(1, b"written to 1\\n")
    def make_noise():
        print("printed")
        sys.stdout.write("and written")
        os.write(1, b"by descriptor\\n")
        subprocess.run(["sh", "-c", "echo by a child program; cat; ls -l /proc/self/fd >&2"], check=True)
        return sys.stdin.read()
    def step(action):
        return make_noise(), 1, False, False, {}
    serve(reset=lambda seed: 0, step=step)
"""


@pytest.mark.parametrize("over", ["socket", "stdio"])
def test_noise_goes_to_stderr_and_standard_input_is_empty(start: Any, over: str) -> None:
    program = start(NOISY, over=over)
    if over == "stdio":  # what was written before serve() was called; the agent skips lines that are not JSON
        noise = b"at import\nwritten to 1\n"
        while len(program.buffer) < len(noise):
            assert program.receive()
        assert program.buffer == noise
        program.buffer = b""
    assert program.hello()["ok"] is True
    assert program.step(0)["obs"] == ""
    log = program.log()
    for text in ("printed", "and written", "by descriptor", "by a child program"):
        assert text in log


def test_child_programs_do_not_inherit_the_channel_or_its_name(start: Any) -> None:
    program = start("""
        import os, subprocess
        from sandpool.env import serve
        def step(action):
            listed = subprocess.run(["sh", "-c", "ls /proc/self/fd; echo ${SANDPOOL_FD-unset}"], capture_output=True, text=True).stdout
            return listed.split(), 1, False, False, {}
        serve(reset=lambda seed: 0, step=step)
    """)
    program.hello()
    descriptors = program.step(0)["obs"]
    assert descriptors[-1] == "unset"
    assert set(descriptors[:-1]) <= {"0", "1", "2", "3"}  # 3 is the folder that ls reads


def test_lines_may_come_in_pieces_and_several_at_once(start: Any) -> None:
    program = start("from sandpool.env import serve\nserve(reset=lambda seed: seed, step=lambda action: (action, 0, False, False, {}))")
    program.hello()
    line = b'{"id":3,"op":"step","action":41}\n'
    for size in (1, 7, 32, 33):
        for start_of_piece in range(0, len(line), size):
            program.send(line[start_of_piece : start_of_piece + size])
        assert json.loads(program.read())["obs"] == 41
    program.send(b"".join(b'{"id":%d,"op":"step","action":%d}\n' % (number, number) for number in range(1000)))
    assert [json.loads(program.read())["obs"] for _ in range(1000)] == list(range(1000))


def test_long_lines_and_long_raw_bytes_pass_both_ways(start: Any) -> None:
    program = start("from sandpool.env import serve\nserve(reset=lambda seed: seed, step=lambda action: (action, 0, False, False, {}))")
    program.hello()
    text = "\u00e9" * 500_000
    assert program.step(text)["obs"] == text
    data = os.urandom(300_000)
    head = b'{"id":3,"op":"step","action":{"$nd":["|u1",[300000],0,300000]},"raw":300000}\n'
    assert program.ask(head + data)["obs"] == list(data)


def test_large_arrays_follow_their_line_in_raw_bytes(start: Any) -> None:
    numpy = pytest.importorskip("numpy")
    program = start("""
        import numpy as np
        from sandpool.env import serve
        image = np.arange(40 * 50, dtype="<u2").reshape(40, 50)
        def step(action):
            return {"a": image, "b": image.T, "small": image[0, :3]}, 0, False, False, {"image": image}
        serve(reset=lambda seed: image, step=step)
    """)
    program.hello()
    reply = program.reset()
    assert reply["obs"] == {"$nd": ["<u2", [40, 50], 0, 4000]}
    assert reply["raw"] == 4000
    image = numpy.arange(2000, dtype="<u2").reshape(40, 50)
    assert program.raw == image.tobytes()
    reply = program.step(0)
    assert reply["obs"]["a"] == {"$nd": ["<u2", [40, 50], 0, 4000]}
    assert reply["obs"]["b"] == {"$nd": ["<u2", [50, 40], 4000, 4000]}
    assert reply["obs"]["small"]["$nd"][2] == "AAABAAIA"
    assert program.raw == image.tobytes() + image.T.tobytes()
    assert isinstance(reply["info"]["image"]["$nd"][2], str)


def test_a_closed_channel_is_told_at_serve(start: Any) -> None:
    program = start("""
        import os
        from sandpool.env import serve
        os.closerange(3, 1000)
        serve(reset=lambda seed: 0, step=lambda action: None)
    """)
    assert program.read() is None
    assert program.wait() == 1
    assert "closed the protocol's descriptor before serve()" in program.log()


def test_a_wrong_sandpool_fd_is_told(start: Any, tmp_path: Path) -> None:
    for given in ("nine", "99", "2"):
        program = start("from sandpool.env import serve", over="stdio", environ={"SANDPOOL_FD": given})
        assert program.wait() == 1
        assert f"SANDPOOL_FD is '{given}'" in program.log()
        assert "expected the number of an open unix stream socket" in program.log()


def test_importing_the_helper_elsewhere_touches_no_descriptor(start: Any) -> None:
    program = start("import os, sandpool.env\nos.write(1, b'{\"id\":5}\\n')", over="stdio")
    assert json.loads(program.read()) == {"id": 5}
