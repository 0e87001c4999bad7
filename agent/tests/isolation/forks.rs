//! The identity that forks and spawned rows end up with.

use serde_json::{Value, json};

use super::shard::{Shard, parse_output};

const NO_CAPABILITIES: &str = "0000000000000000";

pub fn check_identity(told: &Value, uid: u32) {
    let id = format!("{uid} {uid} {uid} {uid}");
    assert_eq!((&told["uids"], &told["gids"], &told["groups"]), (&json!(id), &json!(id), &json!("")));
    for set in ["inheritable", "permitted", "effective", "ambient"] {
        assert_eq!(told[set], NO_CAPABILITIES, "{set}");
    }
    assert_eq!(told["no_new_privileges"], "1");
    assert_eq!(told["leads_session"], true);
    assert_eq!((&told["home"], &told["temporary"]), (&json!("/workspace"), &json!("/tmp")));
    assert_eq!(told["limits"]["processes"], json!([64, 64]));
    assert_eq!(told["limits"]["core"], json!([0, 0]));
    assert_eq!(told["limits"]["descriptors"], json!([4096, 4096]));
    assert_eq!(told["oom_score"], "500");
    let folder = "tmpfs rw,nosuid,nodev,relatime";
    assert_eq!(told["mounts"], json!({"/workspace": folder, "/tmp": folder, "/dev/shm": folder}));
}

#[test]
fn a_spawned_row_has_its_whole_identity_before_its_first_instruction() {
    let mut shard = Shard::isolated(json!({}));
    shard.ask("create_workspace", json!({"row": 9}));
    let told = shard.tell(5, &["whoami"]);
    check_identity(&told, 10005);
    assert_eq!(told["bounding"], NO_CAPABILITIES);
    assert_eq!(told["channel"], "3");
    assert_eq!(told["limits"]["address_space"], json!([1 << 30, 1 << 30]));
}

#[test]
fn a_program_of_a_fork_has_the_rows_identity_and_no_sight_of_other_workspaces() {
    let mut shard = Shard::isolated(json!({}));
    shard.ask("template", json!({}));
    shard.ask("create_workspace", json!({"row": 9}));
    // Waits, so that the agent has raised its score by the time it looks.
    let then = ["exec", "/bin/sh", "-c", "sleep 0.1; exec /sandpool/agent whoami"];
    let forked = shard.ask("fork", json!({"row": 5, "then": then}));
    assert_eq!(forked["sender"], json!({"pid": forked["pid"], "uid": 10005}));
    let told = parse_output(&shard.wait(5));
    check_identity(&told, 10005);
    assert_eq!(told["bounding"], "00000000002000c0");
    assert_eq!(told["folder"], "/workspace");
}

#[test]
fn the_processes_of_many_rows_in_one_fork_are_no_more_than_its_template_may_have() {
    let mut shard = Shard::isolated(json!({}));
    shard.ask("template", json!({}));
    shard.ask("fork", json!({"row": 5, "rows": 100_000, "then": ["exec", "/sandpool/agent", "whoami"]}));
    let told = parse_output(&shard.wait(5));
    assert_eq!(told["limits"]["processes"], json!([64 + 4096, 64 + 4096]), "those of the template");
}

#[test]
fn a_live_fork_gets_its_own_workspace_and_its_own_uid_for_generations() {
    let mut shard = Shard::isolated(json!({}));
    shard.ask("template", json!({}));
    shard.ask("fork", json!({"row": 0, "then": ["serve"]}));
    for row in 1..5 {
        shard.ask("fork", json!({"row": row, "from": row - 1, "then": ["serve"]}));
    }
    let write = "echo mine > /workspace/file; ls /workspace; exec /sandpool/agent whoami";
    for row in 5..7 {
        shard.ask("fork", json!({"row": row, "from": 4, "then": ["exec", "/bin/sh", "-c", write]}));
        let ended = shard.wait(row);
        let output = ended["output"].as_str().expect("text");
        let (listed, told) = output.split_once('\n').expect("two lines");
        assert_eq!(listed, "file");
        let told: Value = serde_json::from_str(told).expect("JSON");
        assert_eq!(told["uids"], format!("{0} {0} {0} {0}", 10000 + row));
        assert_eq!(told["mounts"].as_object().expect("mounts").len(), 3, "{told}");
    }
    assert_eq!(shard.kill(2)["complete"], true);
    assert_eq!(shard.processes(3), 1);
}

#[test]
fn killing_the_source_of_a_fork_leaves_the_fork_alone() {
    let mut shard = Shard::isolated(json!({}));
    shard.ask("template", json!({}));
    shard.ask("fork", json!({"row": 0, "then": ["serve"]}));
    shard.ask("fork", json!({"row": 1, "from": 0, "then": ["exec", "/sandpool/agent", "sleep"]}));
    shard.printed(1);
    shard.kill(0);
    assert_eq!((shard.processes(0), shard.processes(1)), (0, 1));
}
