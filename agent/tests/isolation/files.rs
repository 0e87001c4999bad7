//! Quotas of the workspace and its life.

use serde_json::{Value, json};

use super::shard::{Shard, parse_output};

const NO_SPACE: i32 = 28;

fn fill(shard: &mut Shard, row: u32, folder: &str, most: u64) -> Value {
    shard.tell(row, &["fill", folder, &most.to_string()])
}

#[test]
fn a_row_writes_its_quota_of_bytes_and_no_more_while_others_go_on() {
    let mut shard = Shard::isolated(json!({"workspace_bytes": 1 << 20}));
    for folder in ["/workspace", "/tmp", "/dev/shm"] {
        let filled = fill(&mut shard, 0, folder, 4 << 20);
        assert_eq!(filled, json!({"bytes": 1 << 20, "errno": NO_SPACE}), "{folder}");
    }
    let neighbour = fill(&mut shard, 1, "/workspace", 512 << 10);
    assert_eq!(neighbour, json!({"bytes": 512 << 10, "errno": 0}));
}

#[test]
fn a_process_of_several_rows_may_use_what_they_may_together() {
    let limits = json!({"workspace_bytes": 1 << 20, "workspace_inodes": 50, "shard_memory_bytes": 4 << 20});
    let mut shard = Shard::isolated(limits);
    let argv = ["/sandpool/agent", "fill", "/workspace", "8388608"];
    shard.ask("spawn", json!({"row": 0, "rows": 3, "argv": argv}));
    let ended = shard.wait(0);
    assert_eq!(parse_output(&ended), json!({"bytes": 3 << 20, "errno": NO_SPACE}));
    shard.ask("spawn", json!({"row": 8, "rows": 9, "argv": argv}));
    let ended = shard.wait(8);
    assert_eq!(parse_output(&ended), json!({"bytes": 4 << 20, "errno": NO_SPACE}), "what the shard has");
    shard.ask("spawn", json!({"row": 4, "rows": 3, "argv": ["/sandpool/agent", "touch", "/tmp", "500"]}));
    let ended = shard.wait(4);
    assert_eq!(parse_output(&ended), json!({"files": 150, "errno": NO_SPACE}));
}

#[test]
fn without_isolation_the_same_program_writes_past_the_quota() {
    let mut shard = Shard::unisolated();
    let filled = fill(&mut shard, 0, "/run/rows/0/workspace", 4 << 20);
    assert_eq!(filled, json!({"bytes": 4 << 20, "errno": 0}));
}

#[test]
fn a_row_makes_its_quota_of_files_and_no_more_while_others_go_on() {
    let mut shard = Shard::isolated(json!({"workspace_inodes": 50}));
    let touched = shard.tell(0, &["touch", "/workspace", "500"]);
    assert_eq!(touched, json!({"files": 50, "errno": NO_SPACE}));
    let neighbour = shard.tell(1, &["touch", "/tmp", "50"]);
    assert_eq!(neighbour, json!({"files": 50, "errno": 0}));
}

#[test]
fn without_isolation_the_same_program_makes_as_many_files_as_it_likes() {
    let touched = Shard::unisolated().tell(0, &["touch", "/run/rows/0/workspace", "500"]);
    assert_eq!(touched, json!({"files": 500, "errno": 0}));
}

#[test]
fn a_workspace_is_empty_when_its_row_starts_anew_and_removing_it_twice_is_no_error() {
    for mut shard in [Shard::isolated(json!({})), Shard::unisolated()] {
        let folder = shard.spawn(0, &["sleep"])["workspace"].clone();
        shard.printed(0);
        shard.kill(0);
        let home = "echo $HOME; ls -A $HOME; echo kept > $HOME/file";
        for _ in 0..2 {
            shard.ask("spawn", json!({"row": 0, "argv": ["/bin/sh", "-c", home]}));
            let ended = shard.wait(0);
            assert_eq!(ended["output"].as_str().expect("text").lines().count(), 1, "{ended}");
        }
        for _ in 0..2 {
            shard.ask("remove_workspace", json!({"row": 0}));
        }
        assert_eq!(shard.ask("exists", json!({"row": 0})), json!({"exists": false}), "{folder}");
    }
}

#[test]
fn a_workspace_whose_folders_were_locked_by_their_owner_is_removed() {
    let mut shard = Shard::unisolated();
    let lock = "mkdir -p $HOME/a/b; touch $HOME/a/b/c; chmod 0 $HOME/a/b $HOME/a";
    shard.ask("spawn", json!({"row": 0, "argv": ["/bin/sh", "-c", lock]}));
    shard.wait(0);
    shard.ask("remove_workspace", json!({"row": 0}));
    assert_eq!(shard.ask("exists", json!({"row": 0})), json!({"exists": false}));
}

#[test]
fn a_program_of_a_row_cannot_gain_from_what_it_puts_into_its_workspace() {
    let mut shard = Shard::isolated(json!({"workspace_bytes": 64 << 20}));
    let script = "cp /sandpool/agent $HOME/own && chmod 4755 $HOME/own && $HOME/own whoami";
    shard.ask("spawn", json!({"row": 0, "argv": ["/bin/sh", "-c", script]}));
    let ended = shard.wait(0);
    let told = parse_output(&ended);
    assert_eq!(told["uids"], "10000 10000 10000 10000");
    assert_eq!(told["mounts"]["/workspace"], "tmpfs rw,nosuid,nodev,relatime");
}
