from __future__ import annotations

import pytest

import sandpool
from machines.conftest import LIFETIME_S, new_name
from sandpool import Machine, Sandpool

GIB = 1 << 30


def test_a_machine_is_described_listed_changed_and_deleted(client: Sandpool) -> None:
    name = new_name()
    made = client.machines.create(
        name,
        size={"memory": "512MiB", "disk": 2 * GIB},
        isolated=True,
        environment={"GIVEN": "inside"},
        labels={"job": name, "kind": "test"},
        lifetime=LIFETIME_S,
        progress=False,
    )
    assert (made.name, made.state, made.image, made.network, made.labels) == (
        name,
        "running",
        "host",
        "isolated",
        {"job": name, "kind": "test"},
    )
    assert (made.size.vcpu, made.size.memory, made.size.disk) == (1, GIB // 2, 2 * GIB)
    assert (made.lifetime, made.environment) == (LIFETIME_S, ["GIVEN"])
    assert made.to_dict()["size"] == {"vcpu": 1, "memory": GIB // 2, "disk": 2 * GIB}
    assert client.machines.exec(made, "echo $GIVEN; hostname").stdout == f"inside\n{name}\n"

    assert client.machines.get(name).id == client.machines.get(made.id).id == made.id
    assert [machine.id for machine in client.machines.list(labels={"job": name, "kind": "test"}, state="running")] == [made.id]
    assert client.machines.list(labels={"job": name, "kind": "other"}) == []
    assert client.machines.list(labels={"job": name}, state="stopped") == []

    renamed = client.machines.update(made, name=name + "-x", labels={"job": name}, lifetime=None)
    assert (renamed.name, renamed.labels, renamed.lifetime, renamed.expires_at) == (name + "-x", {"job": name}, None, None)

    client.machines.delete(made)
    with pytest.raises(sandpool.MachineNotFoundError):
        client.machines.get(made.id)


def test_row_31_looking_and_running_leave_the_lifetime_as_it_is(client: Sandpool, box: Machine) -> None:
    before = client.machines.get(box).expires_at
    client.machines.exec(box, "true")
    client.machines.list()
    assert client.machines.get(box).expires_at == before == box.expires_at


def test_row_27_the_quota_is_shown(client: Sandpool, box: Machine) -> None:
    listed = client.machines.list()
    assert listed.quota.used == len(listed) >= 1
    assert listed.quota.limit >= 50


def test_a_stopped_machine_keeps_its_disk_and_says_that_it_is_stopped(client: Sandpool) -> None:
    made = client.machines.create(new_name(), isolated=True, lifetime=LIFETIME_S, progress=False)
    client.machines.files.write(made, "/root/kept", "kept")
    stopped = client.machines.stop(made)
    assert (stopped.state, stopped.reason) == ("stopped", "stopped")
    assert stopped.disk_saved_at is not None
    with pytest.raises(sandpool.MachineStateError, match="stopped"):
        client.machines.exec(made, "true")
    with pytest.raises(sandpool.MachineStateError, match="stopped"):
        client.machines.wait_until_ready(made)
    assert client.machines.start(made).state == "running"
    assert client.machines.wait_until_ready(made).id == made.id
    assert client.machines.files.read_text(made, "/root/kept") == "kept"
    assert isinstance(client.machines.logs(made), bytes)
    client.machines.delete(made)


def test_row_29_several_machines_are_made_at_once_and_each_has_its_fate(client: Sandpool) -> None:
    name = new_name()
    client.machines.create(f"{name}-2", isolated=True, lifetime=LIFETIME_S, progress=False)
    fates = client.machines.create(name, count=2, isolated=True, lifetime=LIFETIME_S, progress=False)
    assert [None if fate.machine is None else fate.machine.name for fate in fates] == [f"{name}-1", None]
    assert fates[0].unwrap().state == "running"
    with pytest.raises(sandpool.RequestRefusedError) as caught:
        fates[1].unwrap()
    assert caught.value.code == "name_taken"
    for machine in client.machines.list():
        if machine.name.startswith(name):
            client.machines.delete(machine)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"size": "huge"}, sandpool.RequestRefusedError),
        ({"size": {"cpus": 2}}, sandpool.InvalidTypeError),
        ({"egress": "example.com"}, sandpool.InvalidTypeError),
        ({"lifetime": -1}, sandpool.InvalidValueError),
        ({"labels": {"a": 1}}, sandpool.InvalidTypeError),
        ({"environment": {"A B": "x"}}, sandpool.RequestRefusedError),
        ({"image": "no-such-image"}, sandpool.ImageNotFoundError),
        ({"name": "Not A Name"}, sandpool.RequestRefusedError),
        ({"count": 0}, sandpool.InvalidValueError),
    ],
)
def test_row_30_a_creation_that_is_refused_leaves_nothing(client: Sandpool, options: dict[str, object], kind: type[Exception]) -> None:
    name = new_name()
    with pytest.raises(kind):
        client.machines.create(**{"name": name, "progress": False, **options})  # type: ignore[arg-type]
    with pytest.raises(sandpool.MachineNotFoundError):
        client.machines.get(name)
