//! What an environment may not do to its container, with and without the capabilities a fork keeps.

use serde_json::{Map, Value, json};

use super::shard::{Shard, parse_output};

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;
const EROFS: i32 = 30;

/// Attempt, and its errno for a fork that regained all it can.
const ATTEMPTS: [(&str, i32); 22] = [
    ("remount_env_writable", EPERM),
    ("mount_tmpfs", EPERM),
    ("mount_proc", EPERM),
    ("mount_shared", EPERM),
    ("mount_recursive_bind", EPERM),
    ("unmount_env", EPERM),
    ("unshare_user", EPERM),
    ("unshare_user_and_mounts", EPERM),
    ("unshare_network", EPERM),
    ("clone_user", EPERM),
    ("clone3_user", ENOSYS),
    ("setns_uts", ENOSYS),
    ("open_tree", ENOSYS),
    ("fsopen", ENOSYS),
    ("mount_setattr", ENOSYS),
    ("move_mount_by_path", EPERM),
    ("become_root", EPERM),
    ("become_template", EPERM),
    ("become_killer", EPERM),
    ("become_group_root", EPERM),
    ("join_group_root", EPERM),
    ("keyring", ENOSYS),
];

fn role() -> Vec<&'static str> {
    [&["attempt"], ATTEMPTS.map(|(name, _)| name).as_slice()].concat()
}

fn expected() -> Value {
    ATTEMPTS.iter().map(|(name, errno)| ((*name).to_owned(), json!(errno))).collect::<Map<_, _>>().into()
}

#[test]
fn a_fork_that_regains_its_capabilities_can_only_repeat_what_forks_need() {
    let mut shard = Shard::isolated(json!({}));
    shard.ask("template", json!({}));
    shard.ask("fork", json!({"row": 0, "then": role()}));
    assert_eq!(parse_output(&shard.wait(0)), expected());
}

#[test]
fn a_spawned_row_can_do_none_of_it() {
    let mut shard = Shard::isolated(json!({}));
    assert_eq!(shard.tell(0, &role()), expected());
}

#[test]
fn without_branching_a_fork_has_no_capability_to_regain() {
    let mut shard = Shard::isolated(json!({"branching": false}));
    shard.ask("template", json!({}));
    shard.ask("fork", json!({"row": 0, "then": role()}));
    assert_eq!(parse_output(&shard.wait(0)), expected());
    shard.ask("fork", json!({"row": 1, "then": ["exec", "/sandpool/agent", "whoami"]}));
    let told = parse_output(&shard.wait(1));
    assert_eq!((&told["permitted"], &told["effective"]), (&json!("0000000000000000"), &json!("0000000000000000")));
}

#[test]
fn without_isolation_every_one_of_these_calls_works() {
    let mut shard = Shard::unisolated();
    let failed: Vec<_> = shard
        .tell(0, &role())
        .as_object()
        .expect("an object")
        .iter()
        .filter(|(_, errno)| **errno != 0)
        .map(|(name, errno)| format!("{name}: {errno}"))
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn the_code_folder_is_read_only_even_for_an_owner_of_its_files() {
    let mut shard = Shard::isolated(json!({}));
    let role = ["attempt", "remount_env_writable", "write_to_env"];
    assert_eq!(shard.tell(0, &role), json!({"remount_env_writable": EPERM, "write_to_env": EROFS}));
    assert_eq!(shard.ask("read", json!({"path": "/env/code"}))["text"], "code");
}

#[test]
fn a_setuid_program_gives_a_row_nothing() {
    let mut shard = Shard::isolated(json!({}));
    let told = shard.tell(0, &["setuid_child", "/sandpool/setuid"]);
    assert_eq!(told["uids"], "10000 10000 10000 10000");
    assert_eq!(told["permitted"], "0000000000000000");
    assert_eq!(told["no_new_privileges"], "1");
}

#[test]
fn without_isolation_the_setuid_program_becomes_root() {
    let told = Shard::unisolated().tell(0, &["setuid_child", "/sandpool/setuid"]);
    assert_eq!(told["uids"], "12345 0 0 0");
}

#[test]
fn a_row_holds_only_the_descriptors_it_was_given() {
    let mut shard = Shard::isolated(json!({}));
    let leaked = shard.ask("leak", json!({}))["descriptor"].clone();
    assert_eq!(shard.tell(0, &["descriptors"]), json!([0, 1, 2, 3]));
    shard.ask("template", json!({}));
    let then = ["exec", "/sandpool/agent", "descriptors"];
    shard.ask("fork", json!({"row": 1, "then": then}));
    let held = parse_output(&shard.wait(1));
    assert!(!held.as_array().expect("a list").contains(&leaked), "{held}");
}

#[test]
fn a_program_started_without_care_holds_the_leaked_descriptor() {
    let mut shard = Shard::unisolated();
    let leaked = shard.ask("leak", json!({}))["descriptor"].clone();
    shard.ask("spawn_plain", json!({"row": 0, "argv": ["/sandpool/agent", "descriptors"]}));
    let held = parse_output(&shard.wait(0));
    assert!(held.as_array().expect("a list").contains(&leaked), "{held}");
}
